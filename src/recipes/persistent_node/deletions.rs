//! When the node is created again after another client has deleted it.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::core::Core;
use crate::util::backoff::Backoff;
use crate::util::clock;

/// Delays after repeated deletions: each twice the one before.
const DELAYS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A node that is deleted no sooner than this after the last deletion is created again at once.
const CALM: Duration = Duration::from_secs(10);

/// The deletions so far.
#[derive(Debug)]
pub(super) struct Deletions {
    delays: Backoff,
    last: Option<clock::Instant>,
}

impl Deletions {
    pub(super) fn new() -> Self {
        Deletions { delays: Backoff::new(DELAYS), last: None }
    }

    /// Notes a deletion. Returns when to create the node again; `None`: at once.
    pub(super) fn another(&mut self, core: &Core) -> Option<Instant> {
        let now = core.clock.now();
        let Some(last) = self.last.replace(now).filter(|last| now.since(*last) < CALM) else {
            self.delays.reset();
            return None;
        };
        Some(Instant::now() + core.next_delay(&mut self.delays, last))
    }
}
