//! The state of a selector.

use std::fmt;

use super::error::Error;
use super::outcome::Outcome;
use crate::contender::{Hold, State};

/// The state of a selector at one moment. It still compares the clock at each call: [`is_leader`](Self::is_leader)
/// turns false when the lease expires, however long ago the state was read.
#[derive(Debug, Clone)]
pub struct SelectorState {
    pub(super) phase: Phase,
    pub(super) last_outcome: Option<Outcome>,
}

/// The phase of a selector, between terms and in them.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// It takes part in the election, and its contender has this state.
    Contending(State),
    /// Its term is over. The listener has not returned yet, or the node is not deleted yet.
    Ending,
    /// It re-enters after a delay.
    Pausing,
    /// It could not enter the election.
    Failed(Error),
    /// It waits to be requeued.
    Idle,
}

impl Phase {
    /// Returns the term, whether or not it still lasts.
    fn term(&self) -> Option<&Hold> {
        match self {
            Phase::Contending(State::Held(hold)) => Some(hold),
            _ => None,
        }
    }
}

/// The status of a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum SelectorStatus {
    /// It creates its node.
    Entering,
    /// Another participant leads, or the lease is not confirmed yet.
    Waiting,
    /// It leads.
    Leading,
    /// Its leadership is over. The listener has not returned yet, or the node is not deleted yet.
    Ending,
    /// The connection may be lost while it waits. It keeps its node.
    Suspended,
    /// It lost its session or its node while it waited. It re-enters.
    Lost,
    /// Its term is over. It re-enters by itself after the delay of the requeue policy, or the delay after a failed
    /// term.
    Pausing,
    /// It could not enter the election. [`SelectorState::error`] returns the reason. With auto-requeue it retries with
    /// growing delays. Without, it waits for [`LeaderSelector::requeue`](super::LeaderSelector::requeue).
    Failed,
    /// Its term is over. It waits for [`LeaderSelector::requeue`](super::LeaderSelector::requeue).
    Idle,
    /// It has left and will not re-enter.
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
    /// Returns whether the selector leads at this instant. It compares the clock at each call.
    #[doc(alias = "hasLeadership")]
    pub fn is_leader(&self) -> bool {
        self.phase.term().is_some_and(Hold::is_held)
    }

    /// Returns the fencing token of its term if the selector leads at this instant.
    pub fn fencing_token(&self) -> Option<i64> {
        self.phase.term().filter(|hold| hold.is_held()).map(Hold::token)
    }

    /// Returns the status. A leader whose lease has expired is `Ending`.
    pub fn status(&self) -> SelectorStatus {
        match &self.phase {
            Phase::Contending(state) => match state {
                State::Entering | State::Entered(_) => SelectorStatus::Entering,
                State::Behind | State::Unproven => SelectorStatus::Waiting,
                State::Held(hold) if hold.is_held() => SelectorStatus::Leading,
                State::Held(_) => SelectorStatus::Ending,
                State::Suspended => SelectorStatus::Suspended,
                State::Lost => SelectorStatus::Lost,
                State::Failed(_) => SelectorStatus::Failed,
                State::Closed => SelectorStatus::Closed,
            },
            Phase::Ending => SelectorStatus::Ending,
            Phase::Pausing => SelectorStatus::Pausing,
            Phase::Failed(_) => SelectorStatus::Failed,
            Phase::Idle => SelectorStatus::Idle,
        }
    }

    /// Returns why the selector could not enter the election, if it could not.
    pub fn error(&self) -> Option<&Error> {
        match &self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the outcome of the last term, if there was one.
    pub fn last_outcome(&self) -> Option<&Outcome> {
        self.last_outcome.as_ref()
    }
}

/// Serializes the state as it is at this instant: `status`, `fencing_token`, `error` and `last_outcome`.
#[cfg(feature = "serde")]
impl serde::Serialize for SelectorState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let mut state = serializer.serialize_struct("SelectorState", 4)?;
        state.serialize_field("status", &self.status())?;
        state.serialize_field("fencing_token", &self.fencing_token())?;
        state.serialize_field("error", &self.error().map(Error::to_string))?;
        state.serialize_field("last_outcome", &self.last_outcome())?;
        state.end()
    }
}
