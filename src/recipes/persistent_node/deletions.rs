//! When to create the node again after another client has deleted it.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::core::Core;
use crate::util::backoff::{AFTER_DELETION, Backoff};
use crate::util::clock;

/// A node that is deleted at least this long after the last deletion is created again at once.
const CALM: Duration = Duration::from_secs(10);

/// The deletions so far.
#[derive(Debug)]
pub(super) struct Deletions {
    delays: Backoff,
    last: Option<clock::Instant>,
}

impl Deletions {
    pub(super) fn new() -> Self {
        Deletions { delays: Backoff::new(AFTER_DELETION), last: None }
    }

    /// Records a deletion. Returns when to create the node again; `None` means at once.
    pub(super) fn record(&mut self, core: &Core) -> Option<Instant> {
        let now = core.clock.now();
        let Some(last) = self.last.replace(now).filter(|last| now.since(*last) < CALM) else {
            self.delays.reset();
            return None;
        };
        Some(Instant::now() + core.next_delay(&mut self.delays, last))
    }
}
