//! What the process that keeps the session is told to do.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::schedule::Schedule;
use crate::connection::Connection;

/// What to hold, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub connection: Connection,
    pub path: String,
    pub kind: Kind,
    /// How long to wait for it; `None` if without a limit.
    pub wait: Option<Duration>,
    /// What others see of this process.
    pub data: String,
    /// How long the command may take to end.
    pub grace: Duration,
}

impl Plan {
    /// Returns how a command is ended in time, in a session with this timeout.
    pub fn schedule(&self, session_timeout: Duration) -> Schedule {
        Schedule::new(session_timeout, self.connection.least_timeout(session_timeout), self.grace)
    }

    /// Returns whether it excludes no other process, so that there is nothing to lose.
    pub fn is_barrier(&self) -> bool {
        matches!(self.kind, Kind::Barrier(_))
    }
}

/// The kinds of what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A mutex. An election is the same: the znodes are those of Curator's LeaderSelector.
    Mutex,
    /// One of so many permits.
    Semaphore(u32),
    /// A place in a double barrier of so many members.
    Barrier(u32),
}
