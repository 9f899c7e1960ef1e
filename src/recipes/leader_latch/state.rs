//! The state of a latch.

use std::fmt;
use std::sync::Arc;

use super::Leadership;
use super::error::Error;
use crate::contender::{Hold, State};
use crate::util::path::Namespace;

/// The state of a latch at one moment. It still compares the clock at each call: [`is_leader`](Self::is_leader) turns
/// false when the lease expires, however long ago the state was read.
#[derive(Debug, Clone)]
pub struct LatchState {
    /// The state of its contender.
    state: State,
    /// It has given up its place to go to the end of the line, until another state follows.
    resigned: bool,
    /// The path of its node, while it has one.
    node: Option<Arc<str>>,
    /// The number of failures to enter the election.
    failures: u64,
    /// The last failure to enter, until another state follows.
    error: Option<Error>,
}

/// The status of a latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum LatchStatus {
    /// It creates its node.
    Entering,
    /// Another participant leads, or the lease is not confirmed yet.
    Waiting,
    /// It leads.
    Leading,
    /// The connection may be lost. It keeps its node.
    Suspended,
    /// Its session or its node is gone. It re-enters.
    Lost,
    /// It gives up its place and re-enters at the end of the line: it was asked to resign, has resigned, or lets one
    /// with a lower number as priority pass.
    Resigned,
    /// It could not enter. It retries with growing delays. [`LatchState::error`] returns the reason.
    Failed,
    /// It has left and will not re-enter.
    Closed,
}

impl LatchStatus {
    pub(super) fn name(self) -> &'static str {
        match self {
            LatchStatus::Entering => "entering",
            LatchStatus::Waiting => "waiting",
            LatchStatus::Leading => "leading",
            LatchStatus::Suspended => "suspended",
            LatchStatus::Lost => "lost",
            LatchStatus::Resigned => "resigned",
            LatchStatus::Failed => "failed",
            LatchStatus::Closed => "closed",
        }
    }
}

impl fmt::Display for LatchStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl LatchState {
    pub(super) fn new() -> Self {
        LatchState { state: State::Entering, resigned: false, node: None, failures: 0, error: None }
    }

    /// Returns the state that follows this one when the contender is in `state`.
    pub(super) fn next(&self, state: State, path: &str, namespace: &Namespace) -> Self {
        let (mut failures, mut error, mut node) = (self.failures, None, self.node.clone());
        match &state {
            State::Entered(full) => node = Some(namespace.strip(full).into()),
            State::Entering | State::Lost | State::Closed => node = None,
            State::Failed(cause) => {
                (failures, node) = (failures + 1, None);
                error = Some(Error::client(path, cause.clone()));
            }
            State::Behind | State::Unproven | State::Held(_) | State::Suspended => {}
        }
        LatchState { state, resigned: false, node, failures, error }
    }

    /// Returns the state that follows this one when the latch gives up its place.
    pub(super) fn resigned(&self) -> Self {
        LatchState { state: State::Lost, resigned: true, node: None, failures: self.failures, error: None }
    }

    /// Returns whether the latch leads at this instant. It compares the clock at each call.
    #[doc(alias = "hasLeadership")]
    pub fn is_leader(&self) -> bool {
        self.term().is_some_and(Hold::is_held)
    }

    /// Returns the leadership if the latch leads at this instant.
    pub fn leadership(&self) -> Option<Leadership> {
        self.term().filter(|hold| hold.is_held()).map(|hold| Leadership::new(hold.clone()))
    }

    /// Returns the status. A leader whose lease has expired is `Suspended`.
    pub fn status(&self) -> LatchStatus {
        match &self.state {
            State::Entering | State::Entered(_) => LatchStatus::Entering,
            State::Behind | State::Unproven => LatchStatus::Waiting,
            State::Held(hold) if hold.is_held() => LatchStatus::Leading,
            State::Held(_) | State::Suspended => LatchStatus::Suspended,
            State::Lost if self.resigned => LatchStatus::Resigned,
            State::Lost => LatchStatus::Lost,
            State::Failed(_) => LatchStatus::Failed,
            State::Closed => LatchStatus::Closed,
        }
    }

    /// Returns why the latch could not enter the election, if it could not.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Returns the number of failures so far.
    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    pub(super) fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Returns whether it has a place, and others before it, or does not know.
    pub(super) fn may_be_behind(&self) -> bool {
        matches!(self.state, State::Behind | State::Suspended)
    }

    /// Returns the term that this state began, whether or not it still lasts.
    pub(super) fn term(&self) -> Option<&Hold> {
        match &self.state {
            State::Held(hold) => Some(hold),
            _ => None,
        }
    }
}

/// Serializes the state as it is at this instant: `status`, `fencing_token`, `node` and `error`.
#[cfg(feature = "serde")]
impl serde::Serialize for LatchState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let mut state = serializer.serialize_struct("LatchState", 4)?;
        state.serialize_field("status", &self.status())?;
        state.serialize_field("fencing_token", &self.term().filter(|hold| hold.is_held()).map(Hold::token))?;
        state.serialize_field("node", &self.node())?;
        state.serialize_field("error", &self.error().map(Error::to_string))?;
        state.end()
    }
}
