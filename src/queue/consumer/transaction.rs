//! The end of a claim: its item leaves the queue, is returned to it, or becomes a dead letter. On the session of the claim or not
//! at all, and refused by the ensemble once there was a later claim.

use std::sync::Arc;
use std::time::Duration;

use super::claim::{CLAIM_VERSION, Claim, bytes_of};
use crate::backend::{self, Multi, Op};
use crate::client;
use crate::client::ErrorKind;
use crate::client::delays::Delays;
use crate::client::parents;
use crate::client::session::Condition;
use crate::queue::dead_letter;
use crate::queue::error::Error;
use crate::types::CreateMode;

/// What is to become of the item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It leaves the queue.
    Ack,
    /// It stays, under its name, for the next consumer; this one does not claim it again for so long.
    Return { hide: Duration },
    /// It becomes a dead letter, after so many deliveries and for this reason.
    Bury { attempts: u32, reason: String },
}

impl Verdict {
    /// Nothing was done with it.
    pub(super) const RELEASE: Self = Verdict::Return { hide: Duration::ZERO };

    /// The delivery failed: it was the last one, or not.
    pub(super) fn failed(claim: &Claim, hide: Duration, reason: String) -> Self {
        let is_last = claim.shared.max_deliveries.is_some_and(|most| claim.attempt() >= most);
        if is_last { Verdict::rejected(claim, reason) } else { Verdict::Return { hide } }
    }

    /// No other delivery makes sense.
    pub(super) fn rejected(claim: &Claim, reason: String) -> Self {
        Verdict::Bury { attempts: claim.attempt(), reason }
    }

    /// The item is only to be returned.
    pub(super) fn returns(&self) -> bool {
        matches!(self, Verdict::Return { .. })
    }
}

/// Why a claim was not settled.
#[derive(Debug)]
pub(super) enum Unsettled {
    /// The session ended before anything was handed over, or before the answer.
    SessionOver {
        /// It may be settled.
        in_doubt: bool,
    },
    /// The claim, or the item, was deleted or changed by others.
    Lost,
    /// The ensemble refuses it; the claim stands.
    Refused(client::Error),
}

impl Unsettled {
    pub(super) fn into_error(self, claim: &Claim) -> Error {
        let name = &claim.name;
        let error = match self {
            Unsettled::Lost => {
                return Error::Lost { path: Arc::clone(&claim.shared.paths.path), name: name.clone() };
            }
            Unsettled::SessionOver { in_doubt: false } => client::Error::session_lost("settle", name),
            Unsettled::SessionOver { in_doubt: true } => client::Error::new(
                ErrorKind::OutcomeUnknown,
                format!("settle {name}: the session ended before the answer; it may or may not be settled"),
            ),
            Unsettled::Refused(error) => error,
        };
        claim.shared.error(error)
    }
}

/// A claim that could not be settled is returned after this, and if that is refused twice as long after, up to the second figure.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The steps of the transaction: the item first, so that a later claim is told from everything else.
const ITEM: usize = 0;
const CLAIM: usize = 1;
const LETTER: usize = 2;

/// Settles a claim, until it is known what came of it. A transaction whose answer was lost is sent again for as long as the claim
/// stands: of two copies only the first is carried out.
pub(super) async fn settle(claim: &Claim, verdict: &Verdict) -> Result<(), Unsettled> {
    let session = &claim.session;
    let mut steps = steps(claim, verdict);
    claim.shared.core.check_size("settle", &claim.name, bytes_of(&steps)).map_err(Unsettled::Refused)?;
    let mut in_doubt = false;
    loop {
        let Ok(connection) = session.connected().await else { return Err(Unsettled::SessionOver { in_doubt }) };
        if in_doubt {
            match Fate::of(claim).await {
                Ok(Fate::Stands) => {}
                Ok(fate) => return fate.of_doubtful(verdict),
                Err(error) => {
                    wait_out(claim, error, connection, in_doubt).await?;
                    continue;
                }
            }
        }
        let error = match session.multi(steps.clone()).await {
            Ok(Multi::Committed(_)) => return Ok(()),
            // To wake consumers of Curator's is a courtesy: without permission for it the item is returned all the same.
            Ok(Multi::Refused { index: LETTER.., .. }) if verdict.returns() => {
                steps.truncate(LETTER);
                continue;
            }
            Ok(Multi::Refused { index: LETTER, error: backend::Error::NoNode }) => {
                match parents::ensure(session, &claim.shared.paths.dead, &claim.shared.core.config.acls).await {
                    Ok(()) => continue,
                    Err(error) => error,
                }
            }
            Ok(Multi::Refused { index: ITEM | CLAIM, error: backend::Error::NoNode | backend::Error::BadVersion }) => {
                match remove_remains(claim).await {
                    Ok(()) if in_doubt => match Fate::of(claim).await {
                        Ok(fate) => return fate.of_doubtful(verdict),
                        Err(error) => error,
                    },
                    Ok(()) => return Err(Unsettled::Lost),
                    Err(error) => error,
                }
            }
            Ok(Multi::Refused { error, .. }) => error,
            Err(error) => {
                in_doubt |= error.leaves_outcome_unknown();
                error
            }
        };
        wait_out(claim, error, connection, in_doubt).await?;
    }
}

/// Waits for the next connection, if the error passes with it.
async fn wait_out(claim: &Claim, error: backend::Error, connection: u64, in_doubt: bool) -> Result<(), Unsettled> {
    match error {
        backend::Error::SessionEnded => return Err(Unsettled::SessionOver { in_doubt }),
        error if error.is_passing() => claim.session.loss_known(connection).await,
        error => return Err(Unsettled::Refused(client::Error::from_backend("settle", &claim.name, error))),
    }
    Ok(())
}

/// What has become of a claim, and of its item. Names are given again when a queue is deleted: which node it is, the transaction
/// tells that created it.
enum Fate {
    /// The claim is there.
    Stands,
    /// It is not, and its item is in the queue.
    Returned,
    /// Nor is its item.
    Gone,
}

impl Fate {
    async fn of(claim: &Claim) -> Result<Self, backend::Error> {
        let session = &claim.session;
        // After a sync, as a server that lags may not know.
        let (synced, node, item) =
            futures::join!(session.sync(&claim.node), session.exists(&claim.node), session.exists(&claim.item));
        synced?;
        if node?.is_some_and(|stat| stat.czxid == claim.zxid) {
            return Ok(Fate::Stands);
        }
        let stays = item?.is_some_and(|stat| stat.czxid == claim.created);
        Ok(if stays { Fate::Returned } else { Fate::Gone })
    }

    /// What a settlement has come to whose answer was lost.
    fn of_doubtful(self, verdict: &Verdict) -> Result<(), Unsettled> {
        match (self, verdict) {
            // Only with a claim is an item deleted.
            (Fate::Gone, _) | (Fate::Returned, Verdict::Return { .. }) => Ok(()),
            (Fate::Returned, Verdict::Ack | Verdict::Bury { .. }) | (Fate::Stands, _) => Err(Unsettled::Lost),
        }
    }
}

fn steps(claim: &Claim, verdict: &Verdict) -> Vec<Op> {
    let (path, version) = (claim.item.clone(), Some(claim.number));
    let unclaim = Op::Delete { path: claim.node.to_string(), version: Some(CLAIM_VERSION) };
    match verdict {
        Verdict::Ack => vec![Op::Delete { path, version }, unclaim],
        Verdict::Return { .. } => {
            let mut steps = vec![Op::Check { path, version }, unclaim];
            steps.extend(wake_curator(claim));
            steps
        }
        Verdict::Bury { attempts, reason } => {
            let letter = Op::Create {
                path: claim.shared.paths.new_dead(&claim.name),
                data: dead_letter::letter(&claim.name, *attempts, reason, &claim.data),
                mode: CreateMode::PersistentSequential,
                acls: claim.shared.core.config.acls.clone(),
            };
            vec![Op::Delete { path, version }, unclaim, letter]
        }
    }
}

/// Consumers of Curator's watch the items alone, and these do not change when one is returned: a child that comes and goes in
/// the same transaction wakes them.
fn wake_curator(claim: &Claim) -> Vec<Op> {
    let paths = &claim.shared.paths;
    if !paths.shared_with_curator {
        return Vec::new();
    }
    let path = paths.wake(&claim.name);
    let acls = claim.shared.core.config.acls.clone();
    vec![
        Op::Create { path: path.clone(), data: Vec::new(), mode: CreateMode::Persistent, acls },
        Op::Delete { path, version: None },
    ]
}

/// The item was deleted or written without a claim: our node is of no use any more. Checked against the item
/// as it is seen, so that no later claim is deleted.
async fn remove_remains(claim: &Claim) -> Result<(), backend::Error> {
    let session = &claim.session;
    loop {
        let (sync, node, item) = (session.sync(&claim.node), session.exists(&claim.node), session.exists(&claim.item));
        let (sync, node, item) = futures::join!(sync, node, item);
        sync?;
        // It may have been written by hand: whose it is tells the transaction that created it.
        let Some(version) = node?.filter(|stat| stat.czxid == claim.zxid).map(|stat| stat.version) else {
            return Ok(());
        };
        let mut steps = vec![Op::Delete { path: claim.node.to_string(), version: Some(version) }];
        if let Some(stat) = item? {
            steps.push(Op::Check { path: claim.item.clone(), version: Some(stat.version) });
        }
        match session.multi(steps).await? {
            Multi::Committed(_) => return Ok(()),
            // One of the two has changed since it was seen.
            Multi::Refused { error: backend::Error::NoNode | backend::Error::BadVersion, .. } => {}
            Multi::Refused { error, .. } => return Err(error),
        }
    }
}

/// Returns the item of a claim that could not be settled otherwise, however long it takes.
pub(super) async fn return_at_last(claim: &Claim) {
    let core = &claim.shared.core;
    let mut delays = Delays::new(AFTER_FAILURE);
    while let Err(Unsettled::Refused(_)) = settle(claim, &Verdict::RELEASE).await {
        let mut conditions = claim.session.conditions();
        tokio::select! {
            biased;
            // Its node goes with the session.
            _ = conditions.wait_for(|condition| matches!(condition, Condition::Ended(_))) => return,
            () = tokio::time::sleep(delays.next(core, core.clock.now())) => {}
        }
    }
}
