//! The numbers of a producer's transactions, in a node of its own for one session: the node tells which were carried out.

use std::sync::Arc;

use crate::backend::{self, Op};
use crate::client::core::Core;
use crate::client::owned_node::OwnedNode;
use crate::client::parents;
use crate::client::session::Session;
use crate::path::join;
use crate::queue::znodes::Paths;
use crate::types::CreateMode;

/// After so many transactions a new node is used: the version of a node counts them, and has 31 bits.
const MOST_NUMBERS: i32 = 1 << 30;

/// What the node says once a transaction is carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ticket {
    /// The version that the transaction gives the node: it is carried out only behind the one before.
    pub(super) number: i32,
    /// Never used twice at one node, so it stands for the puts of the transaction.
    id: u64,
}

impl Ticket {
    fn to_bytes(self) -> Vec<u8> {
        format!("{} {}", self.number, self.id).into_bytes()
    }
}

/// A producer's node. Dropped, it is deleted in the background.
#[derive(Debug)]
pub(super) struct Sequence {
    session: Arc<Session>,
    node: OwnedNode,
    path: Arc<str>,
    /// Of the last transaction that is known to be carried out.
    carried_out: Ticket,
    /// Of the last batch that was composed.
    last: Ticket,
}

impl Sequence {
    /// Creates the node; `None` if the session is over.
    pub(super) async fn create(
        core: &Core,
        session: &Arc<Session>,
        paths: &Paths,
    ) -> Result<Option<Self>, backend::Error> {
        let uuid = core.random.uuid().to_string();
        let path: Arc<str> = join(&paths.producers, &uuid).into();
        let dir: Arc<str> = paths.producers.as_str().into();
        let mut node = OwnedNode::expected(session, &core.janitor, &dir, uuid);
        let acls = &core.config.acls;
        let (carried_out, last) = (Ticket::default(), Ticket::default());
        loop {
            let Ok(connection) = session.connected().await else { return Ok(None) };
            let failed = match session.create(&path, &carried_out.to_bytes(), CreateMode::Ephemeral, acls).await {
                // With this name it can only be ours, of an attempt whose answer was lost.
                Ok(_) | Err(backend::Error::NodeExists) => {
                    node.created(Arc::clone(&path));
                    return Ok(Some(Sequence { session: Arc::clone(session), node, path, carried_out, last }));
                }
                Err(backend::Error::NoNode) => match parents::ensure(session, &paths.producers, acls).await {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !failed.is_passing() {
                if !failed.leaves_outcome_unknown() {
                    node.gone();
                }
                return Err(failed);
            }
            // The loop looks at what came of it.
            let _ = session.connected_after_loss(connection).await;
        }
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The ticket of a new batch; `None` when the numbers of this node are used up.
    pub(super) fn issue(&mut self) -> Option<Ticket> {
        if self.last.number >= MOST_NUMBERS {
            return None;
        }
        self.last = Ticket { number: self.last.number + 1, id: self.last.id + 1 };
        Some(self.last)
    }

    /// The step that numbers a transaction: it is refused if the one before was not carried out, or this one was.
    pub(super) fn step(&self, ticket: Ticket) -> Op {
        let version = Some(ticket.number - 1);
        Op::SetData { path: self.path.to_string(), data: ticket.to_bytes(), version }
    }

    /// The transaction was carried out.
    pub(super) fn confirm(&mut self, ticket: Ticket) {
        self.carried_out = ticket;
    }

    /// What was issued since the last transaction that was carried out will not be sent again: the numbers are used anew, the
    /// ids never.
    pub(super) fn rewind(&mut self) {
        self.last.number = self.carried_out.number;
    }

    /// The number of the last transaction that was carried out, as of now, if `sent` are those that may have been. `None` if that
    /// cannot be known: the session is over, or the node is deleted or tells of a transaction that is none of these.
    pub(super) async fn read(&mut self, sent: &[Ticket]) -> Option<i32> {
        let session = &self.session;
        loop {
            let connection = session.connected().await.ok()?;
            // After a sync, as a server that lags may not know of the last ones.
            let (sync, read) = (session.sync(&self.path), session.get_data(&self.path));
            let failed = match futures::join!(sync, read) {
                (Ok(()), Ok((data, stat))) => {
                    let mut known = sent.iter().copied().chain([self.carried_out]);
                    let last = known.find(|ticket| ticket.number == stat.version && ticket.to_bytes() == data);
                    self.carried_out = last.unwrap_or(self.carried_out);
                    if last.is_none() {
                        let (node, number) = (&*self.path, stat.version);
                        tracing::warn!(
                            event = "foreign_transaction",
                            node,
                            number,
                            "a producer's node was written by others"
                        );
                    }
                    return last.map(|last| last.number);
                }
                (Err(error), _) | (_, Err(error)) => error,
            };
            if !failed.is_passing() {
                let node = &*self.path;
                tracing::warn!(event = "number_unreadable", node, ?failed, "a producer cannot see what it has put");
                return None;
            }
            // The loop looks at what came of it.
            let _ = session.connected_after_loss(connection).await;
        }
    }

    /// Deletes the node and waits until the server has, or its session is over.
    pub(super) async fn end(mut self) {
        // What cannot be deleted now the janitor sees to.
        let _ = self.node.delete(None).await;
    }
}
