//! The transactions that end a claim: the item leaves the queue, is returned to it, or becomes a dead letter. They are
//! sent only in the session of the claim, and the ensemble refuses them once the item has been claimed again.

use std::sync::Arc;
use std::time::Duration;

use super::claim::{CLAIM_VERSION, Claim};
use crate::client;
use crate::client::ErrorKind;
use crate::client::parents;
use crate::engine::{self, Multi, Op};
use crate::queue::dead_letter;
use crate::queue::error::Error;
use crate::queue::history::Retry;
use crate::queue::sizes;
use crate::queue::time;
use crate::util::znode::{CreateMode, Stat};

/// What to do with the item of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Remove it from the queue.
    Ack,
    /// Keep it, under its name. No consumer claims it for the time `hide`: the others read that in its record, and this
    /// one remembers it.
    Return { hide: Duration, outcome: Outcome },
    /// Make it a dead letter, after this many deliveries and for this reason.
    DeadLetter { attempts: u32, reason: String },
}

/// How a delivery ended whose item is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The item was not handled, or not completely. The delivery does not count.
    Unhandled,
    /// It failed, with this error. The delivery counts.
    Failed(String),
    /// Nothing is recorded, so the delivery counts as failed, as if it had ended with its session.
    Unrecorded,
}

impl Verdict {
    /// Returns an unhandled item without a delay.
    pub(super) const RELEASE: Self = Verdict::Return { hide: Duration::ZERO, outcome: Outcome::Unhandled };
    /// Returns an item that could not be settled otherwise.
    pub(super) const UNRECORDED: Self = Verdict::Return { hide: Duration::ZERO, outcome: Outcome::Unrecorded };

    /// Returns the verdict for a failed delivery, which may have been the last one.
    pub(super) fn failed(claim: &Claim, hide: Duration, reason: String) -> Self {
        let is_last = claim.shared.max_deliveries.is_some_and(|most| claim.attempt() >= most);
        if is_last {
            Verdict::rejected(claim, reason)
        } else {
            Verdict::Return { hide, outcome: Outcome::Failed(reason) }
        }
    }

    /// Returns the verdict for an item that no other delivery can handle.
    pub(super) fn rejected(claim: &Claim, reason: String) -> Self {
        Verdict::DeadLetter { attempts: claim.attempt(), reason }
    }

    /// Returns whether the item only returns to the queue.
    pub(super) fn returns(&self) -> bool {
        matches!(self, Verdict::Return { .. })
    }

    /// Returns whether the item returns to the queue without a delay.
    pub(super) fn returns_at_once(&self) -> bool {
        matches!(self, Verdict::Return { hide: Duration::ZERO, .. })
    }
}

/// Why a claim was not settled.
#[derive(Debug)]
pub(super) enum Unsettled {
    /// The session ended before the transaction was sent, or before it was answered.
    SessionOver {
        /// Whether the claim may have been settled.
        in_doubt: bool,
    },
    /// Another client deleted or changed the claim or the item.
    Lost,
    /// The ensemble refused it, or it failed in another permanent way. The claim still exists.
    Failed(client::Error),
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
            Unsettled::Failed(error) => error,
        };
        claim.shared.error(error)
    }
}

/// The steps of the transaction. The item comes first, so that a later claim can be distinguished from all other
/// failures.
const ITEM: usize = 0;
const CLAIM: usize = 1;
const LETTER: usize = 2;

/// Settles a claim. Returns when the outcome is known. A transaction whose answer was lost is sent again while the
/// claim exists: of two copies only the first is carried out.
pub(super) async fn settle(claim: &Claim, verdict: &Verdict) -> Result<(), Unsettled> {
    let mut steps = steps(claim, verdict);
    claim.shared.core.check_size("settle", &claim.name, sizes::of_steps(&steps)).map_err(Unsettled::Failed)?;
    let mut in_doubt = false;
    loop {
        let Ok(connection) = claim.session.connected().await else { return Err(Unsettled::SessionOver { in_doubt }) };
        let error = match attempt(claim, verdict, &mut steps, &mut in_doubt).await {
            Ok(Some(outcome)) => return outcome,
            Ok(None) => continue,
            Err(error) => error,
        };
        if let Err(error) = claim.session.wait_if_transient(error, connection).await {
            // An error that is not a refusal does not show whether the transaction was carried out.
            if in_doubt && let Ok((None, item)) = claim.read_state().await {
                return outcome_in_doubt(claim, verdict, item);
            }
            return Err(Unsettled::Failed(client::Error::from_engine("settle", &claim.name, error)));
        }
    }
}

/// Sends the transaction, unless a copy was carried out before. Returns `None` if it has to be sent again.
async fn attempt(
    claim: &Claim,
    verdict: &Verdict,
    steps: &mut Vec<Op>,
    in_doubt: &mut bool,
) -> Result<Option<Result<(), Unsettled>>, engine::Error> {
    if *in_doubt && let (None, item) = claim.read_state().await? {
        return Ok(Some(outcome_in_doubt(claim, verdict, item)));
    }
    match claim.session.multi(steps.clone()).await {
        Ok(Multi::Committed(_)) => Ok(Some(Ok(()))),
        // Waking consumers of Curator is optional: if the permission is missing, the item is returned without that.
        Ok(Multi::Refused { index: LETTER.., .. }) if verdict.returns() => {
            steps.truncate(LETTER);
            Ok(None)
        }
        Ok(Multi::Refused { index: LETTER, error: engine::Error::NoNode }) => {
            let (paths, config) = (&claim.shared.paths, &claim.shared.core.config);
            parents::ensure(&claim.session, &paths.dead, &[], &config.acls).await.map(|()| None)
        }
        Ok(Multi::Refused { index: ITEM | CLAIM, error: engine::Error::NoNode | engine::Error::BadVersion }) => {
            let item = delete_claim(claim).await?;
            Ok(Some(if *in_doubt { outcome_in_doubt(claim, verdict, item) } else { Err(Unsettled::Lost) }))
        }
        Ok(Multi::Refused { error, .. }) => Err(error),
        Err(error) => {
            *in_doubt |= error.leaves_outcome_unknown();
            Err(error)
        }
    }
}

/// Returns the outcome of a settlement whose answer was lost and whose claim no longer exists. `item` is the node at
/// the path of the item, if there is one.
///
/// If the item does not exist any more, there are three cases. A copy of the transaction removed it. Or it was deleted
/// by hand; then nothing is left to remove or to return, but a dead letter may be missing. Or the claim was deleted by
/// hand, and the next consumer that claimed the item removed it. These cases cannot be distinguished. If no answer was
/// lost, a deletion by hand is reported as [`Unsettled::Lost`].
fn outcome_in_doubt(claim: &Claim, verdict: &Verdict, item: Option<Stat>) -> Result<(), Unsettled> {
    let is_in_queue = item.is_some_and(|item| claim.is_on(&item));
    if is_in_queue && !verdict.returns() { Err(Unsettled::Lost) } else { Ok(()) }
}

fn steps(claim: &Claim, verdict: &Verdict) -> Vec<Op> {
    let (path, version) = (claim.item.clone(), Some(claim.number));
    let unclaim = Op::Delete { path: claim.node.to_string(), version: Some(CLAIM_VERSION) };
    match verdict {
        Verdict::Ack => vec![Op::Delete { path, version }, unclaim],
        Verdict::Return { outcome, hide } => {
            let item = match record(claim, outcome, *hide) {
                Some(data) => Op::SetData { path, data, version },
                None => Op::Check { path, version },
            };
            let mut steps = vec![item, unclaim];
            steps.extend(wake_curator(claim));
            steps
        }
        Verdict::DeadLetter { attempts, reason } => {
            let letter = Op::Create {
                path: claim.shared.paths.new_dead(&claim.name),
                data: dead_letter::letter(&claim.name, *attempts, reason, claim.body()),
                mode: CreateMode::PersistentSequential,
                acls: claim.shared.core.config.acls.clone(),
            };
            vec![Op::Delete { path, version }, unclaim, letter]
        }
    }
}

/// Returns the data of the item with the record of this delivery. Returns `None` if there is nothing to record, or no
/// room: an item that another client put must not grow until it cannot be claimed.
fn record(claim: &Claim, outcome: &Outcome, hide: Duration) -> Option<Vec<u8>> {
    let core = &claim.shared.core;
    let at = |delay| time::millis_after(core.clock.time_of_day(), delay);
    let retry = (hide > Duration::ZERO).then(|| Retry { at: at(hide), delay: Some(hide) });
    let history = match outcome {
        Outcome::Unhandled => claim.history.unhandled(),
        Outcome::Failed(error) => claim.history.failed(error, retry),
        Outcome::Unrecorded => return None,
    };
    has_room(claim).then(|| [claim.body(), &history.record(claim.created, claim.number.wrapping_add(1))].concat())
}

/// Returns whether the item has room for a record.
pub(super) fn has_room(claim: &Claim) -> bool {
    claim.body().len() <= sizes::largest_payload(&claim.shared.core.config, &claim.shared.paths)
}

/// Returns the steps that wake consumers of Curator. Those watch only the list of items, which does not change when an
/// item is returned. A child that is created and deleted in the same transaction wakes them.
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

/// Deletes the claim's node after the item was deleted, or written without a claim. The transaction checks that the
/// item is as it was read, so that no later claim is deleted. Returns what is at the path of the item.
async fn delete_claim(claim: &Claim) -> Result<Option<Stat>, engine::Error> {
    loop {
        let (node, item) = claim.read_state().await?;
        // The node may have been written by hand, so the version that was read is used.
        let Some(Stat { version, .. }) = node else { return Ok(item) };
        let mut steps = vec![Op::Delete { path: claim.node.to_string(), version: Some(version) }];
        steps.extend(item.map(|item| Op::Check { path: claim.item.clone(), version: Some(item.version) }));
        match claim.session.multi(steps).await? {
            Multi::Committed(_) => return Ok(item),
            // One of the two nodes has changed since it was read.
            Multi::Refused { error: engine::Error::NoNode | engine::Error::BadVersion, .. } => {}
            Multi::Refused { error, .. } => return Err(error),
        }
    }
}
