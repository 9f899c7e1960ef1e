//! Claims on items, and the transactions that make them.
//!
//! The data version of an item is the number of its claims. One transaction creates the claim's node, named as the item
//! is, and writes the item's data once more: so no two claims on an item have the same number, and everything that is
//! said of an item afterwards is refused by the ensemble once there was a later claim.

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::watch;

use super::shared::Shared;
use crate::backend::{self, Multi, Op, OpResult};
use crate::client;
use crate::client::parents;
use crate::client::session::Session;
use crate::queue::sizes;
use crate::types::{CreateMode, Stat};

/// The data version of a claim's node. Curator's lock nodes have version 0, so none is taken for a claim of ours.
pub(super) const CLAIM_VERSION: i32 = 1;

/// A claim on an item; before it is made it has no transaction.
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
    ended: watch::Sender<bool>,
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
        self.ended.send_replace(true);
    }

    /// Whether it has ended.
    pub(super) fn end_state(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    /// Resolves when it has ended.
    pub(super) async fn ended(&self) {
        // The sender lives as long as the claim does.
        let _ = self.end_state().wait_for(|ended| *ended).await;
    }

    /// Ends the claim when its node is deleted, or another stands in its place. The end of the session is not told
    /// here.
    pub(super) async fn watch_node(&self) {
        while let Ok(connection) = self.session.connected().await {
            match self.session.watch_exists(&self.node).await {
                Ok((Some(stat), watch)) if stat.czxid == self.zxid && stat.version == CLAIM_VERSION => {
                    tokio::select! {
                        biased;
                        () = self.ended() => return,
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
    /// Another consumer has it, or there is a lock of Curator's.
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

    /// Claims an item that was read; returns when it is known what came of it.
    pub(super) async fn claim(self, name: String, item: Item) -> Result<Claim, End> {
        let Claimant { shared, session } = self;
        let Item { data, created, version } = item;
        let (item, node) = (shared.paths.item(&name), shared.paths.claim(&name).into());
        let (number, ended) = (version.wrapping_add(1), watch::Sender::new(false));
        let mut claim = Claim { shared, session, name, item, node, data, created, number, zxid: 0, ended };
        claim.zxid = claim.make().await?;
        Ok(claim)
    }
}

/// The steps of the transaction that claims.
const CREATE_CLAIM: usize = 0;
const COUNT_CLAIM: usize = 2;

/// How it is made.
impl Claim {
    /// The transaction that made it.
    async fn make(&self) -> Result<i64, End> {
        let steps = self.steps();
        self.shared.core.check_size("claim", &self.name, sizes::of_steps(&steps)).map_err(End::Refused)?;
        let first = self.session.connected().now_or_never();
        let connection = self.connected().await?;
        if first != Some(Ok(connection)) {
            // What happened while there was no connection is not known yet: another item may have the name.
            return Err(End::Changed);
        }
        match self.send(&steps).await {
            Err(End::Failed(error)) if error.leaves_outcome_unknown() => {
                self.make_sure(&steps, error, connection).await
            }
            Err(End::Failed(error)) => {
                self.session.outlast(error, connection).await.map_err(End::Failed)?;
                Err(End::Changed)
            }
            made => made,
        }
    }

    /// A copy of the transaction has failed, and may have been carried out, or may still be: sends it again until that
    /// is known.
    async fn make_sure(&self, steps: &[Op], error: backend::Error, connection: u64) -> Result<i64, End> {
        let core = &self.shared.core;
        let mut doubted = core.clock.now();
        let mut last = self.session.outlast(error, connection).await;
        loop {
            let connection = self.connected().await?;
            let error = match self.find().await {
                Ok(Some(zxid)) => return Ok(zxid),
                Ok(None) => {
                    last.map_err(End::Failed)?;
                    match self.send(steps).await {
                        // By a late copy of ours, or a lock of Curator's.
                        Err(End::Taken) if core.clock.now().since(doubted) < self.session.timeout() => {
                            tokio::time::sleep(core.config.tick / 4).await;
                            last = Ok(());
                            continue;
                        }
                        Err(End::Failed(error)) => error,
                        made => return made,
                    }
                }
                Err(End::Failed(error)) if error.is_passing() => error,
                // The claim may stand until the session ends. That is told, and keeps no other item back.
                Err(End::Failed(error)) => return Err(refused("look for the claim on", &self.name, error)),
                Err(end) => return Err(end),
            };
            if error.leaves_outcome_unknown() {
                doubted = core.clock.now();
            }
            last = self.session.outlast(error, connection).await;
        }
    }

    /// Sends a copy of the transaction.
    async fn send(&self, steps: &[Op]) -> Result<i64, End> {
        loop {
            let end = match self.session.multi(steps.to_vec()).await {
                Ok(Multi::Committed(results)) => return Ok(zxid(&results)),
                Ok(Multi::Refused { index, error }) => match (index, error) {
                    (CREATE_CLAIM, backend::Error::NodeExists) => End::Taken,
                    (CREATE_CLAIM, backend::Error::NoNode) => {
                        let (paths, config) = (&self.shared.paths, &self.shared.core.config);
                        match parents::ensure(&self.session, &paths.claims, &config.acls).await {
                            Ok(()) => continue,
                            Err(error) => End::Failed(error),
                        }
                    }
                    (COUNT_CLAIM, backend::Error::NoNode) => End::Gone,
                    (COUNT_CLAIM, backend::Error::BadVersion) => End::Changed,
                    (COUNT_CLAIM, error @ backend::Error::NoAuth) => refused("claim", &self.name, error),
                    (_, error) => End::Failed(error),
                },
                Err(error) => End::Failed(error),
            };
            return Err(end);
        }
    }

    fn steps(&self) -> Vec<Op> {
        let holder = self.shared.holder.as_bytes().to_vec();
        vec![
            Op::Create {
                path: self.node.to_string(),
                data: holder.clone(),
                mode: CreateMode::Ephemeral,
                acls: self.shared.core.config.acls.clone(),
            },
            Op::SetData { path: self.node.to_string(), data: holder, version: Some(0) },
            Op::SetData {
                path: self.item.clone(),
                data: self.data.clone(),
                version: Some(self.number.wrapping_sub(1)),
            },
        ]
    }

    /// After an answer was lost: the transaction that made it. `None` if none of ours has, and no other consumer has
    /// claimed the item. A lock of Curator's may be in the way then, and a late copy of ours may still come after it.
    async fn find(&self) -> Result<Option<i64>, End> {
        let (node, item) = self.nodes().await.map_err(End::Failed)?;
        let number = item.filter(|stat| self.is_on(stat)).map(|stat| stat.version);
        match node {
            Some((data, stat))
                if number == Some(self.number)
                    && stat.ephemeral_owner == self.session.id()
                    && stat.version == CLAIM_VERSION
                    && data == self.shared.holder.as_bytes() =>
            {
                Ok(Some(stat.czxid))
            }
            _ if number == Some(self.number.wrapping_sub(1)) => Ok(None),
            _ => Err(End::Taken),
        }
    }

    async fn connected(&self) -> Result<u64, End> {
        self.session.connected().await.map_err(|_| End::Failed(backend::Error::SessionEnded))
    }
}

/// What has become of it.
impl Claim {
    /// Its node, if it still stands, and the node at the path of its item.
    pub(super) async fn look(&self) -> Result<(Option<Stat>, Option<Stat>), backend::Error> {
        let (node, item) = self.nodes().await?;
        Ok((node.map(|(_, stat)| stat).filter(|stat| stat.czxid == self.zxid), item))
    }

    /// Whether this is its item: names are given again when a queue is deleted, but by another transaction.
    pub(super) fn is_on(&self, item: &Stat) -> bool {
        item.czxid == self.created
    }

    /// The nodes at its path and at that of its item, after a sync, as a server that lags may not know of them.
    async fn nodes(&self) -> Result<(Option<(Vec<u8>, Stat)>, Option<Stat>), backend::Error> {
        let (session, node) = (&self.session, &*self.node);
        let (synced, node, item) =
            futures::join!(session.sync(node), session.get_data(node), session.exists(&self.item));
        synced?;
        let node = match node {
            Err(backend::Error::NoNode) => None,
            node => Some(node?),
        };
        Ok((node, item?))
    }
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

fn refused(doing: &str, name: &str, error: backend::Error) -> End {
    End::Refused(client::Error::from_backend(doing, name, error))
}
