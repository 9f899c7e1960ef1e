//! What a selector is doing.

use std::fmt;

use super::error::Error;
use super::outcome::Outcome;
use crate::contender::Hold;

/// The state of a selector at some moment. It goes on heeding the clock: a state that said yes says no once the lease is
/// over, however long ago it was read.
#[derive(Debug, Clone)]
pub struct SelectorState {
    pub(super) phase: Phase,
    pub(super) last_outcome: Option<Outcome>,
}

#[derive(Debug, Clone)]
pub(super) enum Phase {
    Entering,
    Waiting,
    Leading(Hold),
    Ending,
    Suspended,
    Lost,
    Pausing,
    Failed(Error),
    Idle,
    Closed,
}

/// What a selector is doing, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SelectorStatus {
    /// Its node is being created.
    Entering,
    /// Somebody else leads, or the lease is not proven yet.
    Waiting,
    /// It leads.
    Leading,
    /// Its leadership is over; the listener has yet to return, or the node to be deleted.
    Ending,
    /// The connection is in doubt while it waits; its node is kept.
    Suspended,
    /// Its session, or its node, is gone while it waited; it enters again.
    Lost,
    /// Its term is over; it enters again by itself when the requeue policy's delay is.
    Pausing,
    /// It could not enter the line; [`SelectorState::error`] tells why. With auto-requeue it tries again, ever more slowly;
    /// without, [`LeaderSelector::requeue`](super::LeaderSelector::requeue) does.
    Failed,
    /// Its term is over; it waits for [`LeaderSelector::requeue`](super::LeaderSelector::requeue).
    Idle,
    /// It has left for good.
    Closed,
}

impl fmt::Display for SelectorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SelectorStatus::Entering => "entering",
            SelectorStatus::Waiting => "waiting",
            SelectorStatus::Leading => "leading",
            SelectorStatus::Ending => "ending",
            SelectorStatus::Suspended => "suspended",
            SelectorStatus::Lost => "lost",
            SelectorStatus::Pausing => "pausing",
            SelectorStatus::Failed => "failed",
            SelectorStatus::Idle => "idle",
            SelectorStatus::Closed => "closed",
        })
    }
}

impl SelectorState {
    /// Whether it leads at this instant: compares the clock at each call.
    pub fn is_leader(&self) -> bool {
        matches!(&self.phase, Phase::Leading(hold) if hold.is_held())
    }

    /// The fencing token of its term, if it leads at this instant.
    pub fn fencing_token(&self) -> Option<i64> {
        match &self.phase {
            Phase::Leading(hold) if hold.is_held() => Some(hold.token()),
            _ => None,
        }
    }

    /// What it is doing. A leader whose lease is over is `Ending`.
    pub fn status(&self) -> SelectorStatus {
        match &self.phase {
            Phase::Entering => SelectorStatus::Entering,
            Phase::Waiting => SelectorStatus::Waiting,
            Phase::Leading(hold) if hold.is_held() => SelectorStatus::Leading,
            Phase::Leading(_) | Phase::Ending => SelectorStatus::Ending,
            Phase::Suspended => SelectorStatus::Suspended,
            Phase::Lost => SelectorStatus::Lost,
            Phase::Pausing => SelectorStatus::Pausing,
            Phase::Failed(_) => SelectorStatus::Failed,
            Phase::Idle => SelectorStatus::Idle,
            Phase::Closed => SelectorStatus::Closed,
        }
    }

    /// Why the line could not be entered, if that is so.
    pub fn error(&self) -> Option<&Error> {
        match &self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// How the last term ended, if there was one.
    pub fn last_outcome(&self) -> Option<&Outcome> {
        self.last_outcome.as_ref()
    }
}
