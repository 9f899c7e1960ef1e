//! What a contender knows of its position in the line.

use super::order::Turn;
use crate::engine::{Event, Watch};
use crate::util::path::join;
use crate::util::wait::{fired, forever};

/// Our position, as far as it is known.
#[derive(Debug)]
pub(super) enum Position {
    /// The line must be listed.
    Unknown,
    /// Our recipe has not admitted us yet.
    NotAdmitted,
    /// No contender is before us that we wait for.
    Head,
    /// We wait for a contender before us.
    Behind(Predecessor),
}

/// The contender that we wait for.
#[derive(Debug)]
pub(super) struct Predecessor {
    pub(super) path: String,
    /// It is the only one that we wait for: when it is gone, we hold.
    pub(super) is_last: bool,
    /// `None` until it is armed.
    pub(super) watch: Option<Watch>,
}

impl Position {
    pub(super) fn of(turn: Turn<'_>, dir: &str) -> Self {
        match turn {
            Turn::Now => Position::Head,
            Turn::After { name, last } => {
                Position::Behind(Predecessor { path: join(dir, name), is_last: last, watch: None })
            }
        }
    }

    /// Resolves with the next event of the node that we wait for.
    pub(super) async fn event(&mut self) -> Event {
        match self {
            Position::Behind(predecessor) => fired(&mut predecessor.watch).await,
            _ => forever().await,
        }
    }
}
