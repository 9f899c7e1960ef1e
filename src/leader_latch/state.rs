//! What a latch is doing.

use std::fmt;

use super::Leadership;
use super::error::Error;
use crate::contender::Hold;

/// The state of a latch at some moment. It goes on heeding the clock: a state that said yes says no once the lease is
/// over, however long ago it was read.
#[derive(Debug, Clone)]
pub struct LatchState {
    phase: Phase,
}

#[derive(Debug, Clone)]
pub(super) enum Phase {
    Entering,
    Waiting,
    Leading(Hold),
    Suspended,
    Lost,
    /// With its number: the failures of a latch are counted.
    Failed(u64, Error),
    Closed,
}

/// What a latch is doing, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LatchStatus {
    /// Its node is being created.
    Entering,
    /// Somebody else leads, or the lease is not proven yet.
    Waiting,
    /// It leads.
    Leading,
    /// The connection is in doubt; its node is kept.
    Suspended,
    /// Its session, or its node, is gone; it enters again.
    Lost,
    /// It could not enter; it tries again, ever more slowly. [`LatchState::error`] tells why.
    Failed,
    /// It has left for good.
    Closed,
}

impl fmt::Display for LatchStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LatchStatus::Entering => "entering",
            LatchStatus::Waiting => "waiting",
            LatchStatus::Leading => "leading",
            LatchStatus::Suspended => "suspended",
            LatchStatus::Lost => "lost",
            LatchStatus::Failed => "failed",
            LatchStatus::Closed => "closed",
        })
    }
}

impl LatchState {
    pub(super) fn new(phase: Phase) -> Self {
        LatchState { phase }
    }

    /// Whether it leads at this instant: compares the clock at each call.
    pub fn is_leader(&self) -> bool {
        matches!(&self.phase, Phase::Leading(hold) if hold.is_held())
    }

    /// The term as leader, if it leads at this instant.
    pub fn leadership(&self) -> Option<Leadership> {
        match &self.phase {
            Phase::Leading(hold) if hold.is_held() => Some(Leadership::new(hold.clone())),
            _ => None,
        }
    }

    /// What it is doing. A leader whose lease is over is `Suspended`.
    pub fn status(&self) -> LatchStatus {
        match &self.phase {
            Phase::Entering => LatchStatus::Entering,
            Phase::Waiting => LatchStatus::Waiting,
            Phase::Leading(hold) if hold.is_held() => LatchStatus::Leading,
            Phase::Leading(_) | Phase::Suspended => LatchStatus::Suspended,
            Phase::Lost => LatchStatus::Lost,
            Phase::Failed(..) => LatchStatus::Failed,
            Phase::Closed => LatchStatus::Closed,
        }
    }

    /// Why the line could not be entered, if that is so.
    pub fn error(&self) -> Option<&Error> {
        self.failure().map(|(_, error)| error)
    }

    pub(super) fn failure(&self) -> Option<(u64, &Error)> {
        match &self.phase {
            Phase::Failed(number, error) => Some((*number, error)),
            _ => None,
        }
    }

    /// The term as leader that this state began, lasting or not.
    pub(super) fn term(&self) -> Option<&Hold> {
        match &self.phase {
            Phase::Leading(hold) => Some(hold),
            _ => None,
        }
    }
}
