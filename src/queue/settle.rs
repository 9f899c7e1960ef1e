//! What becomes of a claimed item: it leaves the queue, goes back, or goes to the dead letters. On the session of the claim,
//! or not at all: by another the same names may be somebody else's.

use std::sync::Arc;
use std::time::Duration;

use super::claim::{Claim, Whose, whose};
use super::dead;
use super::directory;
use super::names::Places;
use crate::backend::{self, Multi, Op};
use crate::client;
use crate::client::core::Core;
use crate::client::delays::Delays;
use crate::types::CreateMode;

/// Delays before a claim that could not be settled is given up once more, each twice the one before, up to the second.
const AFTER_REFUSAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What a step has besides its path and its data: a header, a version, lengths.
const STEP_BYTES: usize = 64;

/// What is to become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The item is done.
    Done,
    /// The attempt failed: the item keeps its name and place, and its version counts the attempt.
    Again,
    /// There was no attempt: only the claim goes.
    GiveBack,
    /// The item goes to the dead letters, for this reason, after so many attempts.
    Bury { attempts: u32, reason: String },
}

/// Why it did not come about.
#[derive(Debug)]
pub(super) enum Unsettled {
    /// The session was over before anything was handed over, or before the answer.
    SessionOver {
        /// It may have come about.
        in_doubt: bool,
    },
    /// The claim was deleted by somebody else, or the item was deleted or changed.
    Lost,
    Failed(backend::Error),
    /// The servers would cut the connection at such a request, so it was not sent.
    TooLarge(client::Error),
}

impl Unsettled {
    /// The claim stands, and what was to become of the item cannot be.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Unsettled::Failed(_) | Unsettled::TooLarge(_))
    }
}

/// Settles a claim, until it is known what came of it.
pub(super) async fn settle(core: &Core, places: &Places, claim: &Claim, verdict: &Verdict) -> Result<(), Unsettled> {
    let session = &claim.session;
    let bytes = steps(core, places, claim, verdict).iter().map(bytes_of).sum();
    core.check_size("settle", &claim.name, bytes).map_err(Unsettled::TooLarge)?;
    let mut in_doubt = false;
    loop {
        let Ok(connection) = session.connected().await else { return Err(Unsettled::SessionOver { in_doubt }) };
        let error = if in_doubt {
            match whose(session, &claim.node, &claim.holder).await {
                Ok(Whose::Ours) => {
                    in_doubt = false;
                    continue;
                }
                // The claim went with what it was to go with, unless somebody else has deleted it.
                Ok(Whose::Foreign | Whose::Nobodys) => match came_about(claim, verdict).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => return Err(Unsettled::Lost),
                    Err(error) => error,
                },
                Err(error) => error,
            }
        } else {
            match session.multi(steps(core, places, claim, verdict)).await {
                Ok(Multi::Committed(_)) => return Ok(()),
                Ok(Multi::Refused { index, error }) => match refused(core, places, claim, index, error).await {
                    Ok(()) => continue,
                    Err(Unsettled::Failed(error)) if error.is_passing() => error,
                    Err(unsettled) => return Err(unsettled),
                },
                Err(error) => {
                    in_doubt = error.leaves_outcome_unknown();
                    error
                }
            }
        };
        match error {
            backend::Error::SessionEnded => return Err(Unsettled::SessionOver { in_doubt }),
            // The loop looks at what came of it.
            error if error.is_passing() => drop(session.connected_after_loss(connection).await),
            error => return Err(Unsettled::Failed(error)),
        }
    }
}

/// Whether it came about, now that the claim is gone: an item that was to leave the queue has left it.
async fn came_about(claim: &Claim, verdict: &Verdict) -> Result<bool, backend::Error> {
    match verdict {
        Verdict::Done | Verdict::Bury { .. } => Ok(claim.session.exists(&claim.item).await?.is_none()),
        Verdict::Again | Verdict::GiveBack => Ok(true),
    }
}

/// The claim goes first, so that its loss is told from everything else.
fn steps(core: &Core, places: &Places, claim: &Claim, verdict: &Verdict) -> Vec<Op> {
    let (path, version) = (claim.item.clone(), Some(claim.version));
    let mut steps = vec![Op::Delete { path: claim.node.to_string(), version: None }];
    match verdict {
        Verdict::Done => steps.push(Op::Delete { path, version }),
        Verdict::Again => steps.push(Op::SetData { path, data: claim.data.clone(), version }),
        Verdict::GiveBack => {}
        Verdict::Bury { attempts, reason } => {
            steps.push(Op::Delete { path, version });
            steps.push(Op::Create {
                path: places.new_dead(&claim.name),
                data: dead::write(claim, *attempts, reason),
                mode: CreateMode::PersistentSequential,
                acls: core.config.acls.clone(),
            });
        }
    }
    steps
}

/// About what a step takes of a request.
fn bytes_of(step: &Op) -> usize {
    STEP_BYTES
        + match step {
            Op::Create { path, data, .. } | Op::SetData { path, data, .. } => path.len() + data.len(),
            Op::Check { path, .. } | Op::Delete { path, .. } => path.len(),
        }
}

/// What to make of the step that was refused; `Ok` if it is worth another try.
async fn refused(
    core: &Core,
    places: &Places,
    claim: &Claim,
    index: usize,
    error: backend::Error,
) -> Result<(), Unsettled> {
    match (index, error) {
        (0, backend::Error::NoNode) => Err(Unsettled::Lost),
        (1, backend::Error::NoNode | backend::Error::BadVersion) => {
            // Whoever took it had no claim; ours is of no use any more. It goes with the session at the latest.
            match claim.session.delete(&claim.node, None).await {
                Err(error) if error.is_passing() => Err(Unsettled::Failed(error)),
                _ => Err(Unsettled::Lost),
            }
        }
        (2, backend::Error::NoNode) => {
            directory::make(&claim.session, &places.dead, &core.config.acls).await.map_err(Unsettled::Failed)
        }
        (_, error) => Err(Unsettled::Failed(error)),
    }
}

/// Gives a claim up that could not be settled, however long it takes: until it is gone, or its session is over.
pub(super) async fn give_back(core: Arc<Core>, places: Arc<Places>, claim: Arc<Claim>) {
    let mut delays = Delays::new(AFTER_REFUSAL);
    while settle(&core, &places, &claim, &Verdict::GiveBack).await.is_err_and(|unsettled| unsettled.is_refused()) {
        tokio::time::sleep(delays.next(&core, core.clock.now())).await;
    }
}
