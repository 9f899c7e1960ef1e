//! Claims on items, and the transactions that make them.
//!
//! Each claim raises the data version of its item, which is its number. One transaction creates the claim's node, which
//! has the name of the item, and writes the item's data once more. So no two claims on an item have the same number,
//! and the ensemble refuses every later step on an item once there was a later claim.

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
use crate::queue::history::History;
use crate::queue::sizes;
use crate::util::znode::{CreateMode, Stat};

/// The data version of a claim's node. Curator's lock nodes have version 0, so none is mistaken for a claim of ours.
pub(super) const CLAIM_VERSION: i32 = 1;

/// A claim on an item. Before it is made, its transaction id is 0.
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
    /// The item's data version, which this claim has made.
    pub(super) number: i32,
    /// The transaction that made the claim: greater for every later claim on any item.
    pub(super) zxid: i64,
    /// When it was made, or begun to be.
    since: Instant,
    /// Whether it was settled, or its node is gone.
    ended: watch::Sender<bool>,
}

impl Claim {
    /// Returns the checks of a transaction that only the holder of this claim may carry out.
    pub(super) fn checks(&self) -> Vec<(Arc<str>, i32)> {
        vec![(Arc::clone(&self.node), CLAIM_VERSION), (self.item.as_str().into(), self.number)]
    }

    /// Returns the path of the queue.
    pub(super) fn path(&self) -> &str {
        &self.shared.paths.path
    }

    /// Returns the number of this delivery of the item: one more than have failed.
    pub(super) fn attempt(&self) -> u32 {
        self.history.failures.saturating_add(1)
    }

    /// Returns the data of the item as it was put.
    pub(super) fn body(&self) -> &[u8] {
        &self.data[..self.history.body]
    }

    /// Tells the metrics how long it lasted, and how it ended.
    pub(super) fn measure(&self, outcome: &'static str) {
        let labels = [Label::Path(&self.shared.paths.path), Label::Is(outcome)];
        self.shared.core.meter().record(&table::QUEUE_DELIVERY, &labels, self.since.elapsed().as_secs_f64());
    }

    /// Ends the claim: from now on it is not held.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Returns a receiver of whether it has ended.
    pub(super) fn end_state(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    /// Resolves when it has ended.
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
                Err(error) if error.is_passing() => self.session.loss_known(connection).await,
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

/// Why an item was not read or claimed.
#[derive(Debug)]
pub(super) enum End {
    /// Another consumer has claimed it, or there is a lock of Curator.
    Taken,
    /// It was claimed since it was read, or may have been: it has to be read again.
    Changed,
    /// It is not in the queue any more.
    Gone,
    /// This item cannot be claimed: it may not be read or written, or is too large for a request.
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
    pub(super) async fn read(self, name: String) -> Result<Item, End> {
        let path = self.shared.paths.item(&name);
        match self.session.retry_while_passing(|| self.session.get_data(&path)).await {
            Ok((data, stat)) => Ok(Item { data, created: stat.czxid, version: stat.version }),
            Err(engine::Error::NoNode) => Err(End::Gone),
            // The permission to read it is missing, or it is larger than an answer may be.
            Err(error @ (engine::Error::NoAuth | engine::Error::Refused(_) | engine::Error::Other(_))) => {
                Err(refused("read", &name, error))
            }
            Err(error) if error.is_unread() => Err(refused("read", &name, error)),
            Err(error) => Err(End::Failed(error)),
        }
    }

    /// Claims an item that was read. Returns when the outcome is known.
    pub(super) async fn claim(self, name: String, item: Item) -> Result<Claim, End> {
        let Claimant { shared, session } = self;
        let Item { data, created, version } = item;
        let (item, node) = (shared.paths.item(&name), shared.paths.claim(&name).into());
        let (number, ended) = (version.wrapping_add(1), watch::Sender::new(false));
        let (history, since) = (History::read(&data, created, version), Instant::now());
        let mut claim =
            Claim { shared, session, name, item, node, data, history, created, number, zxid: 0, since, ended };
        claim.zxid = claim.make().await?;
        claim.since = Instant::now();
        Ok(claim)
    }
}

/// The steps of the transaction that claims.
const CREATE_CLAIM: usize = 0;
const COUNT_CLAIM: usize = 2;

/// How a claim is made.
impl Claim {
    /// Makes the claim, and returns the id of its transaction.
    async fn make(&self) -> Result<i64, End> {
        let steps = self.steps();
        self.shared.core.check_size("claim", &self.name, sizes::of_steps(&steps)).map_err(End::Refused)?;
        let first = self.session.connected().now_or_never();
        let connection = self.connected().await?;
        if first != Some(Ok(connection)) {
            // Changes during the loss of the connection are not known yet: another item may have the name.
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

    /// Sends the transaction again until its outcome is known, after a copy failed that may have been carried out, or
    /// may still be.
    async fn make_sure(&self, steps: &[Op], error: engine::Error, connection: u64) -> Result<i64, End> {
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
                        // Taken by a late copy of ours, or by a lock of Curator.
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
                // The claim may exist until the session ends. The error is reported, and does not delay other items.
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
                    (CREATE_CLAIM, engine::Error::NodeExists) => End::Taken,
                    (CREATE_CLAIM, engine::Error::NoNode) => {
                        let (paths, config) = (&self.shared.paths, &self.shared.core.config);
                        match parents::ensure(&self.session, &paths.claims, &[], &config.acls).await {
                            Ok(()) => continue,
                            Err(error) => End::Failed(error),
                        }
                    }
                    (COUNT_CLAIM, engine::Error::NoNode) => End::Gone,
                    (COUNT_CLAIM, engine::Error::BadVersion) => End::Changed,
                    (COUNT_CLAIM, error @ engine::Error::NoAuth) => refused("claim", &self.name, error),
                    (_, error) => End::Failed(error),
                },
                Err(error @ engine::Error::TooLarge(_)) => refused("claim", &self.name, error),
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

    /// Finds the transaction that made the claim, after an answer was lost. `None` if none of ours did, and no other
    /// consumer has claimed the item. In that case a lock of Curator may exist, and a late copy of ours may still
    /// arrive.
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
        self.session.connected().await.map_err(|_| End::Failed(engine::Error::SessionEnded))
    }
}

/// The present state of a claim.
impl Claim {
    /// Reads its node, if it still exists, and the node at the path of its item.
    pub(super) async fn look(&self) -> Result<(Option<Stat>, Option<Stat>), engine::Error> {
        let (node, item) = self.nodes().await?;
        Ok((node.map(|(_, stat)| stat).filter(|stat| stat.czxid == self.zxid), item))
    }

    /// Returns whether this is its item. When a queue is deleted, names are assigned again, but by other transactions.
    pub(super) fn is_on(&self, item: &Stat) -> bool {
        item.czxid == self.created
    }

    /// Reads the nodes at its path and at that of its item, after a sync, because a lagging server may not know them.
    async fn nodes(&self) -> Result<(Option<(Vec<u8>, Stat)>, Option<Stat>), engine::Error> {
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

fn refused(doing: &str, name: &str, error: engine::Error) -> End {
    End::Refused(client::Error::from_engine(doing, name, error))
}
