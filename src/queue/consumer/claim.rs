//! Claims on items, and the transactions that make them.
//!
//! The data version of an item is the number of its claims. One transaction creates the claim's node, named as the item is, and
//! writes the item's data once more: so no two claims on an item have the same number, and everything that is said of an item
//! afterwards is refused by the ensemble once there was a later claim.

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::watch;

use super::shared::Shared;
use crate::backend::{self, Multi, Op, OpResult};
use crate::client;
use crate::client::parents;
use crate::client::session::Session;
use crate::types::CreateMode;

/// The data version of a claim's node. Curator's lock nodes have version 0, so none is taken for a claim of ours.
pub(super) const CLAIM_VERSION: i32 = 1;

/// A claim that was made.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Arc<Session>,
    /// The name of the item.
    pub(super) name: String,
    /// The item's node.
    pub(super) item: String,
    /// The claim's node.
    pub(super) node: Arc<str>,
    /// What the item's node holds.
    pub(super) data: Vec<u8>,
    /// The transaction that put the item.
    pub(super) created: i64,
    /// The item's data version: how many claims there were on it, with this one.
    pub(super) number: i32,
    /// The transaction that made it: greater for every later claim on any item.
    pub(super) zxid: i64,
    /// It was settled, or its node is gone.
    over: watch::Sender<bool>,
}

impl Claim {
    /// What stands in a transaction that only this claim may carry out.
    pub(super) fn checks(&self) -> Vec<(Arc<str>, i32)> {
        vec![(Arc::clone(&self.node), CLAIM_VERSION), (self.item.as_str().into(), self.number)]
    }

    /// The number of this delivery of the item: 1 for the first.
    pub(super) fn attempt(&self) -> u32 {
        u32::try_from(self.number).unwrap_or(u32::MAX)
    }

    /// From now on it is held no more.
    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }

    pub(super) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Whether it is over, for those who do not have the claim.
    pub(super) fn over_told(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    /// Resolves when it [is over](Self::is_over).
    pub(super) async fn over(&self) {
        // The sender lives as long as the claim does.
        let _ = self.over_told().wait_for(|over| *over).await;
    }

    /// Ends the claim when its node is deleted, or another stands in its place. The end of the session is not told here.
    pub(super) async fn watch_node(&self) {
        while let Ok(connection) = self.session.connected().await {
            match self.session.watch_exists(&self.node).await {
                Ok((Some(stat), watch)) if stat.czxid == self.zxid && stat.version == CLAIM_VERSION => {
                    tokio::select! {
                        biased;
                        () = self.over() => return,
                        _ = watch => {}
                    }
                }
                Ok(_) => return self.end(),
                Err(error) if error.is_passing() => drop(self.session.connected_after_loss(connection).await),
                Err(error) => {
                    tracing::warn!(node = &*self.node, ?error, "the claim on an item cannot be watched");
                    return;
                }
            }
        }
    }
}

/// What was read of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) data: Vec<u8>,
    /// The transaction that put it.
    pub(super) created: i64,
    /// How many claims there were on it.
    pub(super) version: i32,
}

/// Why an item was not read or claimed.
#[derive(Debug)]
pub(super) enum End {
    /// Another consumer has it.
    Taken,
    /// It was claimed since it was read, or may have been: it is to be read once more.
    Changed,
    /// It is not in the queue any more.
    Gone,
    /// This item cannot be had: it may not be read or written, or is too large for a request.
    Refused(client::Error),
    /// The ensemble refuses it, as it would for any other item; or the session has ended.
    Failed(backend::Error),
}

/// A consumer, in one session.
#[derive(Debug, Clone)]
pub(super) struct Claimant {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Arc<Session>,
}

/// The steps of the transaction that claims.
const CREATE_CLAIM: usize = 0;
const COUNT_CLAIM: usize = 2;

impl Claimant {
    pub(super) async fn read(self, name: String) -> Result<Item, End> {
        let path = self.shared.paths.item(&name);
        match self.session.retry_while_passing(|| self.session.get_data(&path)).await {
            Ok((data, stat)) => Ok(Item { data, created: stat.czxid, version: stat.version }),
            Err(backend::Error::NoNode) => Err(End::Gone),
            // It may not be read, or is larger than an answer may be.
            Err(error @ (backend::Error::NoAuth | backend::Error::Other(_))) => Err(refused("read", &name, error)),
            Err(error) => Err(End::Failed(error)),
        }
    }

    /// Claims an item that was read, until it is known what came of it.
    pub(super) async fn claim(self, name: String, item: Item) -> Result<Claim, End> {
        let (path, node) = (self.shared.paths.item(&name), Arc::<str>::from(self.shared.paths.claim(&name)));
        let steps = self.claiming(&path, &node, &item);
        self.shared.core.check_size("claim", &name, bytes_of(&steps)).map_err(End::Refused)?;
        // Since when a copy may have been carried out whose answer was lost, or may still be.
        let mut doubted = None;
        let first = self.session.connected().now_or_never();
        let zxid = loop {
            let connection = self.connected().await?;
            if doubted.is_none() && first != Some(Ok(connection)) {
                // It was read on another connection; by now there may be another item of this name.
                return Err(End::Changed);
            }
            if doubted.is_some() {
                match self.find(&path, &node, &item).await {
                    Ok(Found::Ours(zxid)) => break zxid,
                    Ok(Found::Unclaimed) => {}
                    Ok(Found::Claimed) => return Err(End::Taken),
                    Err(error) => {
                        self.wait_out(error, connection).await?;
                        continue;
                    }
                }
            }
            let error = match self.session.multi(steps.clone()).await {
                Ok(Multi::Committed(results)) => break zxid(&results),
                Ok(Multi::Refused { index, error }) => match (index, error) {
                    (CREATE_CLAIM, backend::Error::NodeExists) => match doubted {
                        Some(since) if self.shared.core.clock.now().since(since) < self.session.timeout() => {
                            tokio::time::sleep(self.shared.core.config.tick / 4).await;
                            continue;
                        }
                        _ => return Err(End::Taken),
                    },
                    (CREATE_CLAIM, backend::Error::NoNode) => match self.make_claims_directory().await {
                        Ok(()) => continue,
                        Err(error) => error,
                    },
                    (COUNT_CLAIM, backend::Error::NoNode) => return Err(End::Gone),
                    (COUNT_CLAIM, backend::Error::BadVersion) => return Err(End::Changed),
                    (COUNT_CLAIM, error @ backend::Error::NoAuth) => return Err(refused("claim", &name, error)),
                    (_, error) => error,
                },
                Err(error) if error.leaves_outcome_unknown() => {
                    doubted = Some(self.shared.core.clock.now());
                    error
                }
                Err(error) => error,
            };
            match (self.wait_out(error, connection).await, doubted) {
                (Ok(()), Some(_)) => {}
                (Ok(()), None) => return Err(End::Changed),
                (Err(end), None) => return Err(end),
                // A copy may have been carried out all the same.
                (Err(end), Some(_)) => match self.find(&path, &node, &item).await {
                    Ok(Found::Ours(zxid)) => break zxid,
                    _ => return Err(end),
                },
            }
        };
        let Claimant { shared, session } = self;
        let Item { data, created, version } = item;
        let (number, over) = (version.wrapping_add(1), watch::Sender::new(false));
        Ok(Claim { shared, session, name, item: path, node, data, created, number, zxid, over })
    }

    fn claiming(&self, path: &str, node: &str, item: &Item) -> Vec<Op> {
        let holder = self.shared.holder.as_bytes().to_vec();
        vec![
            Op::Create {
                path: node.to_owned(),
                data: holder.clone(),
                mode: CreateMode::Ephemeral,
                acls: self.shared.core.config.acls.clone(),
            },
            Op::SetData { path: node.to_owned(), data: holder, version: Some(0) },
            Op::SetData { path: path.to_owned(), data: item.data.clone(), version: Some(item.version) },
        ]
    }

    /// After an answer was lost: was the claim made? After a sync, as a server that lags may not know. Names are given again when a
    /// queue is deleted; which item it is, the transaction tells that created it.
    async fn find(&self, path: &str, node: &str, item: &Item) -> Result<Found, backend::Error> {
        let session = &self.session;
        let (synced, claim, stat) = futures::join!(session.sync(node), session.get_data(node), session.exists(path));
        synced?;
        let version = stat?.filter(|stat| stat.czxid == item.created).map(|stat| stat.version);
        match claim {
            Ok((data, stat))
                if version == Some(item.version.wrapping_add(1))
                    && stat.ephemeral_owner == session.id()
                    && stat.version == CLAIM_VERSION
                    && data == self.shared.holder.as_bytes() =>
            {
                Ok(Found::Ours(stat.czxid))
            }
            Ok(_) | Err(backend::Error::NoNode) if version == Some(item.version) => Ok(Found::Unclaimed),
            Ok(_) | Err(backend::Error::NoNode) => Ok(Found::Claimed),
            Err(error) => Err(error),
        }
    }

    async fn connected(&self) -> Result<u64, End> {
        self.session.connected().await.map_err(|_| End::Failed(backend::Error::SessionEnded))
    }

    async fn make_claims_directory(&self) -> Result<(), backend::Error> {
        parents::ensure(&self.session, &self.shared.paths.claims, &self.shared.core.config.acls).await
    }

    /// Waits for the next connection, if the error passes with it.
    async fn wait_out(&self, error: backend::Error, connection: u64) -> Result<(), End> {
        if !error.is_passing() {
            return Err(End::Failed(error));
        }
        // The caller looks at what came of it.
        let _ = self.session.connected_after_loss(connection).await;
        Ok(())
    }
}

/// Who has claimed an item.
enum Found {
    /// This consumer, by this transaction.
    Ours(i64),
    /// No transaction of ours has. A lock of Curator's may be in the way, and a late copy of ours may still come after it.
    Unclaimed,
    /// Another consumer has, or it is not in the queue any more.
    Claimed,
}

fn zxid(results: &[OpResult]) -> i64 {
    results
        .iter()
        .rev()
        .find_map(|result| match result {
            OpResult::SetData { stat } => Some(stat.mzxid),
            _ => None,
        })
        .unwrap_or(0)
}

/// What a step has besides its path and its data: a header, a version, lengths.
const STEP_BYTES: usize = 64;

/// About what these steps take of a request.
pub(super) fn bytes_of(steps: &[Op]) -> usize {
    let bytes_of = |step: &Op| match step {
        Op::Create { path, data, .. } | Op::SetData { path, data, .. } => STEP_BYTES + path.len() + data.len(),
        Op::Check { path, .. } | Op::Delete { path, .. } => STEP_BYTES + path.len(),
    };
    steps.iter().map(bytes_of).sum()
}

fn refused(doing: &str, name: &str, error: backend::Error) -> End {
    End::Refused(client::Error::from_backend(doing, name, error))
}
