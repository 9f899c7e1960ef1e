//! Claims on items, and the transactions that make them.
//!
//! One transaction creates the claim's node, which has the name of the item, and writes the item's data again. The
//! write raises the data version of the item, and that version is the number of the claim. So no two claims on an item
//! have the same number, and once an item has been claimed again, the ensemble refuses every step of the earlier claim.

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::shared::Shared;
use crate::client;
use crate::client::parents;
use crate::client::session::Session;
use crate::engine::{self, Multi, Op, OpResult};
use crate::metrics::{Label, table};
use crate::queue::history::{History, Retry};
use crate::queue::sizes;
use crate::util::znode::{CreateMode, Stat};

/// The data version of a claim's node. Curator's lock nodes have version 0, so none is mistaken for a claim of ours.
pub(super) const CLAIM_VERSION: i32 = 1;

/// A claim on an item. Its transaction id is 0 until it has been made.
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
    /// The data of the item's node.
    data: Vec<u8>,
    /// The deliveries of the item that failed before.
    pub(super) history: History,
    /// The transaction that put the item.
    pub(super) created: i64,
    /// The data version of the item that this claim's write made.
    pub(super) number: i32,
    /// The id of the transaction that made the claim. Every later claim, on any item, has a greater one.
    pub(super) zxid: i64,
    /// When it was made; until then, when the attempt began.
    since: Instant,
    /// Whether it was settled, or its node no longer exists.
    ended: watch::Sender<bool>,
}

impl Claim {
    /// Returns the nodes and versions that a transaction must check so that only the holder of this claim can commit
    /// it.
    pub(super) fn checks(&self) -> Vec<(Arc<str>, i32)> {
        vec![(Arc::clone(&self.node), CLAIM_VERSION), (self.item.as_str().into(), self.number)]
    }

    /// Returns the path of the queue.
    pub(super) fn path(&self) -> &str {
        &self.shared.paths.path
    }

    /// Returns the number of this delivery: one more than the number of failed ones.
    pub(super) fn attempt(&self) -> u32 {
        self.history.failures.saturating_add(1)
    }

    /// Returns the data of the item as it was put.
    pub(super) fn body(&self) -> &[u8] {
        &self.data[..self.history.body]
    }

    /// Records in the metrics how long the claim lasted and how it ended.
    pub(super) fn record_duration(&self, outcome: &'static str) {
        let labels = [Label::Path(&self.shared.paths.path), Label::Is(outcome)];
        self.shared.core.meter().record(&table::QUEUE_DELIVERY, &labels, self.since.elapsed().as_secs_f64());
    }

    /// Ends the claim, which is not held from now on.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Returns a receiver that holds whether the claim has ended.
    pub(super) fn end_state(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    /// Resolves when the claim has ended.
    pub(super) async fn ended(&self) {
        // The sender exists as long as the claim does.
        let _ = self.end_state().wait_for(|ended| *ended).await;
    }

    /// Ends the claim when its node is deleted or replaced by another. The end of the session is not reported here.
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
                Err(error) if error.is_transient() => self.session.wait_for_disconnect(connection).await,
                Err(error) => {
                    tracing::warn!(
                        event = "claim_not_watched",
                        path = &*self.shared.paths.path,
                        item = self.name,
                        node = &*self.node,
                        ?error,
                        "the claim on an item cannot be watched"
                    );
                    return;
                }
            }
        }
    }
}

/// An item as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) data: Vec<u8>,
    /// The transaction that put it.
    pub(super) created: i64,
    pub(super) version: i32,
}

impl Item {
    /// Returns until when no consumer claims it, because a delivery of it failed.
    pub(super) fn retry(&self) -> Option<Retry> {
        History::read(&self.data, self.created, self.version).retry
    }
}

/// Why an item was not read or claimed.
#[derive(Debug)]
pub(super) enum ClaimError {
    /// Another consumer has claimed it, or there is a lock of Curator.
    Taken,
    /// It has been claimed since it was read, or may have been, so it has to be read again.
    Changed,
    /// It is not in the queue any more.
    Gone,
    /// This item cannot be claimed: a permission is missing, or it is too large for a request.
    Refused(client::Error),
    /// The request failed as it would for any other item, or the session has ended.
    Failed(engine::Error),
}

/// A consumer, in one session.
#[derive(Debug, Clone)]
pub(super) struct Claimant {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Arc<Session>,
}

impl Claimant {
    pub(super) async fn read(self, name: String) -> Result<Item, ClaimError> {
        let path = self.shared.paths.item(&name);
        match self.session.retry_while_transient(|| self.session.get_data(&path)).await {
            Ok((data, stat)) => Ok(Item { data, created: stat.czxid, version: stat.version }),
            Err(engine::Error::NoNode) => Err(ClaimError::Gone),
            // The permission to read it is missing, or it is larger than an answer may be.
            Err(error @ (engine::Error::NoAuth | engine::Error::Refused(_) | engine::Error::Other(_))) => {
                Err(refused("read", &name, error))
            }
            Err(error) if error.is_unread() => Err(refused("read", &name, error)),
            Err(error) => Err(ClaimError::Failed(error)),
        }
    }

    /// Claims an item that was read. Returns when the outcome is known.
    pub(super) async fn claim(self, name: String, item: Item) -> Result<Claim, ClaimError> {
        let Claimant { shared, session } = self;
        let Item { data, created, version } = item;
        let (item, node) = (shared.paths.item(&name), shared.paths.claim(&name).into());
        let (number, ended) = (version.wrapping_add(1), watch::Sender::new(false));
        let (history, since) = (History::read(&data, created, version), Instant::now());
        let mut claim =
            Claim { shared, session, name, item, node, data, history, created, number, zxid: 0, since, ended };
        claim.zxid = claim.transact().await?;
        claim.since = Instant::now();
        Ok(claim)
    }
}

/// The steps of the claim's transaction, as a refusal names them.
const CREATE_CLAIM: usize = 0;
const WRITE_ITEM: usize = 2;

/// How a claim is made.
impl Claim {
    /// Makes the claim, and returns the id of its transaction.
    async fn transact(&self) -> Result<i64, ClaimError> {
        let steps = self.steps();
        self.shared.core.check_size("claim", &self.name, sizes::of_steps(&steps)).map_err(ClaimError::Refused)?;
        let first = self.session.connected().now_or_never();
        let connection = self.connected().await?;
        if first != Some(Ok(connection)) {
            // Changes during the loss of the connection are not known yet: another item may have the name.
            return Err(ClaimError::Changed);
        }
        match self.send(&steps).await {
            Err(ClaimError::Failed(error)) if error.leaves_outcome_unknown() => {
                self.resolve(&steps, error, connection).await
            }
            Err(ClaimError::Failed(error)) => {
                self.session.wait_if_transient(error, connection).await.map_err(ClaimError::Failed)?;
                Err(ClaimError::Changed)
            }
            made => made,
        }
    }

    /// Determines the outcome after a copy of the transaction failed that may have been carried out, or may still be.
    /// Sends further copies until the outcome is known.
    async fn resolve(&self, steps: &[Op], error: engine::Error, connection: u64) -> Result<i64, ClaimError> {
        let core = &self.shared.core;
        let mut unknown_since = core.clock.now();
        let mut retryable = self.session.wait_if_transient(error, connection).await;
        loop {
            let connection = self.connected().await?;
            let error = match self.find().await {
                Ok(Some(zxid)) => return Ok(zxid),
                Ok(None) => {
                    retryable.map_err(ClaimError::Failed)?;
                    match self.send(steps).await {
                        // The node is a late copy of this claim, or a lock of Curator.
                        Err(ClaimError::Taken) if core.clock.now().since(unknown_since) < self.session.timeout() => {
                            tokio::time::sleep(core.config.tick / 4).await;
                            retryable = Ok(());
                            continue;
                        }
                        Err(ClaimError::Failed(error)) => error,
                        made => return made,
                    }
                }
                Err(ClaimError::Failed(error)) if error.is_transient() => error,
                // The claim may exist until the session ends. The error is reported, and does not delay other items.
                Err(ClaimError::Failed(error)) => return Err(refused("look for the claim on", &self.name, error)),
                Err(error) => return Err(error),
            };
            if error.leaves_outcome_unknown() {
                unknown_since = core.clock.now();
            }
            retryable = self.session.wait_if_transient(error, connection).await;
        }
    }

    /// Sends a copy of the transaction.
    async fn send(&self, steps: &[Op]) -> Result<i64, ClaimError> {
        use engine::Error::{BadVersion, NoAuth, NoNode, NodeExists, TooLarge};
        loop {
            let (step, error) = match self.session.multi(steps.to_vec()).await {
                Ok(Multi::Committed(results)) => return Ok(zxid(&results)),
                Ok(Multi::Refused { index, error }) => (Some(index), error),
                Err(error) => (None, error),
            };
            return Err(match (step, error) {
                (Some(CREATE_CLAIM), NoNode) => {
                    let (paths, config) = (&self.shared.paths, &self.shared.core.config);
                    match parents::ensure(&self.session, &paths.claims, &[], &config.acls).await {
                        Ok(()) => continue,
                        Err(error) => ClaimError::Failed(error),
                    }
                }
                (Some(CREATE_CLAIM), NodeExists) => ClaimError::Taken,
                (Some(WRITE_ITEM), NoNode) => ClaimError::Gone,
                (Some(WRITE_ITEM), BadVersion) => ClaimError::Changed,
                (Some(WRITE_ITEM), error @ NoAuth) | (None, error @ TooLarge(_)) => refused("claim", &self.name, error),
                (_, error) => ClaimError::Failed(error),
            });
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

    /// Finds the transaction that made the claim after an answer was lost. Returns `None` if no copy of it has been
    /// carried out and no other consumer has claimed the item. Even then a lock of Curator may exist, and a late copy
    /// may still arrive.
    async fn find(&self) -> Result<Option<i64>, ClaimError> {
        let (node, item) = self.read_nodes().await.map_err(ClaimError::Failed)?;
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
            _ => Err(ClaimError::Taken),
        }
    }

    async fn connected(&self) -> Result<u64, ClaimError> {
        self.session.connected().await.map_err(|_| ClaimError::Failed(engine::Error::SessionEnded))
    }
}

/// The present state of a claim.
impl Claim {
    /// Reads the claim's node, if it still exists, and the node at the path of its item.
    pub(super) async fn read_state(&self) -> Result<(Option<Stat>, Option<Stat>), engine::Error> {
        let (node, item) = self.read_nodes().await?;
        Ok((node.map(|(_, stat)| stat).filter(|stat| stat.czxid == self.zxid), item))
    }

    /// Returns whether this node is the claim's item. After a queue was deleted, another item can have the same name,
    /// but another transaction created it.
    pub(super) fn is_on(&self, item: &Stat) -> bool {
        item.czxid == self.created
    }

    /// Reads the nodes at the paths of the claim and of its item. A sync comes first, because a lagging server may not
    /// have them yet.
    async fn read_nodes(&self) -> Result<(Option<(Vec<u8>, Stat)>, Option<Stat>), engine::Error> {
        let (session, node) = (&self.session, &*self.node);
        let (synced, node, item) =
            futures::join!(session.sync(node), session.get_data(node), session.exists(&self.item));
        synced?;
        let node = match node {
            Err(engine::Error::NoNode) => None,
            node => Some(node?),
        };
        Ok((node, item?))
    }
}

/// Returns the id of the transaction that had these results.
fn zxid(results: &[OpResult]) -> i64 {
    let written_by = |result: &OpResult| match result {
        OpResult::SetData { stat } => Some(stat.mzxid),
        _ => None,
    };
    results.iter().rev().find_map(written_by).unwrap_or(0)
}

fn refused(doing: &str, name: &str, error: engine::Error) -> ClaimError {
    ClaimError::Refused(client::Error::from_engine(doing, name, error))
}
