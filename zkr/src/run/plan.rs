//! The instructions for the process that keeps the session.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::schedule::Schedule;
use crate::connection::Connection;

/// What to hold, at which path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub connection: Connection,
    pub path: String,
    pub kind: Kind,
    /// How long to wait for it; `None` means without a limit.
    pub wait: Option<Duration>,
    /// What others see of this process.
    pub data: String,
    /// How long the command may take to end.
    pub grace: Duration,
}

impl Plan {
    /// Returns the schedule by which a command is ended in time, in a session with this timeout.
    pub fn schedule(&self, session_timeout: Duration) -> Schedule {
        Schedule::new(session_timeout, self.connection.least_timeout(session_timeout), self.grace)
    }

    /// Returns whether it excludes no other process, so that there is nothing to lose.
    pub fn is_barrier(&self) -> bool {
        matches!(self.kind, Kind::Barrier(_))
    }
}

/// What kind of thing is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A mutex. An election is the same: the znodes are those of Curator's LeaderSelector.
    Mutex,
    /// One of this many permits.
    Semaphore(u32),
    /// A place in a double barrier of this many members.
    Barrier(u32),
}
