//! Exchanges the node of a writer for one of a reader at the same place of the line, in one transaction.
//!
//! The new node has the number of the old one, so it is not sequential: no waiter gets in between. There is no
//! moment with both nodes, or with neither.

use std::sync::Arc;

use futures::future::join;

use super::{End, Spec};
use crate::client::Error;
use crate::client::core::Core;
use crate::client::owned_node::OwnedNode;
use crate::client::session::Session;
use crate::engine::{self, Multi, Op};
use crate::layout::line::digits_of;
use crate::layout::parts;
use crate::util::path::{join as join_path, split};
use crate::util::znode::CreateMode;

/// The outcome of one attempt.
enum Attempt {
    Done,
    /// Nothing was changed; to be retried at once.
    Again,
    /// Nothing was changed; to be retried on the next connection.
    Later,
    /// It may have been carried out; to be looked for on the next connection.
    Unknown,
}

/// One exchange. If it is dropped, the janitor deletes the new node; the old one is its owner's.
pub(super) struct Downgrade {
    session: Arc<Session>,
    /// The node of the writer.
    from: Arc<str>,
    /// The path of the node of the reader.
    to: Arc<str>,
    /// The node of the reader.
    node: OwnedNode,
    ops: Vec<Op>,
}

impl Downgrade {
    /// Prepares the exchange of the node at `from` for one in the line of `spec`.
    pub(super) fn new(core: &Core, session: &Arc<Session>, from: &Arc<str>, base: &str, spec: &Spec) -> Self {
        let prefix = parts::protection(core.random.uuid());
        let digits = digits_of(split(from).1, base);
        let to = join_path(&spec.dir, &format!("{prefix}{}{digits}", spec.base));
        let create = Op::Create {
            path: to.clone(),
            data: spec.data.clone(),
            mode: CreateMode::Ephemeral,
            acls: core.config.acls.clone(),
        };
        let ops = vec![create, Op::Delete { path: from.to_string(), version: None }];
        let node = OwnedNode::expected(session, &core.janitor, &spec.dir, prefix);
        Downgrade { session: Arc::clone(session), from: Arc::clone(from), to: to.into(), node, ops }
    }

    /// Exchanges the nodes, as long as `is_held`. Returns the new node, its path, and the connection on which that was
    /// seen.
    pub(super) async fn run(mut self, is_held: impl Fn() -> bool) -> Result<(OwnedNode, Arc<str>, u64), End> {
        let mut outcome_unknown = false;
        loop {
            let connection = tokio::select! {
                biased;
                connected = self.session.connected() => connected.map_err(|_| End::SessionOver)?,
                () = self.is_lost(&is_held) => return Err(End::SessionOver),
            };
            // A writer that has lost its lock must not keep a place.
            if !is_held() {
                return Err(End::SessionOver);
            }
            let attempt = if outcome_unknown { self.recover().await } else { self.attempt().await };
            match attempt? {
                Attempt::Done => {
                    self.node.created(Arc::clone(&self.to));
                    return Ok((self.node, self.to, connection));
                }
                Attempt::Again => outcome_unknown = false,
                Attempt::Later => self.session.wait_for_disconnect(connection).await,
                Attempt::Unknown => {
                    outcome_unknown = true;
                    self.session.wait_for_disconnect(connection).await;
                }
            }
        }
    }

    async fn attempt(&self) -> Result<Attempt, End> {
        match self.session.multi(self.ops.clone()).await {
            Ok(Multi::Committed(_)) => Ok(Attempt::Done),
            // By an attempt that was not answered.
            Ok(Multi::Refused { error: engine::Error::NodeExists, .. }) => Ok(Attempt::Unknown),
            Ok(Multi::Refused { error: engine::Error::NoNode, .. }) => Err(End::NodeGone),
            Ok(Multi::Refused { error, .. }) if error.is_transient() => Ok(Attempt::Later),
            Ok(Multi::Refused { error, .. }) => Err(self.failed(error)),
            Err(engine::Error::ConnectionLoss | engine::Error::SessionEnded) => Ok(Attempt::Unknown),
            Err(error) if error.is_transient() => Ok(Attempt::Later),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Looks whether an attempt was carried out that was not answered. If it comes later, the next one is refused.
    async fn recover(&self) -> Result<Attempt, End> {
        let (sync, found) = self.session.together(|| (self.session.sync(&self.to), self.session.exists(&self.to)));
        let (sync, found) = join(sync, found).await;
        match sync.and(found) {
            Ok(Some(stat)) if stat.ephemeral_owner == self.session.id() => Ok(Attempt::Done),
            Ok(_) => Ok(Attempt::Again),
            Err(error) if error.is_transient() => Ok(Attempt::Unknown),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Resolves when the lock is lost, at the latest a tick later, or when the session's runtime has ended.
    async fn is_lost(&self, is_held: impl Fn() -> bool) {
        while is_held() && self.session.sleep(self.session.lease().tick()).await {}
    }

    fn failed(&self, error: engine::Error) -> End {
        End::Failed(Error::from_engine("downgrade", &self.from, error))
    }
}
