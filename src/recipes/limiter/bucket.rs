//! The arithmetic: a bucket that fills at a rate. It uses whole numbers only and is exact for every rate.

use std::time::Duration;

use tokio::time::Instant;

/// How many parts a permit has. A rate of r permits a second adds r parts a nanosecond.
const PARTS: u128 = 1_000_000_000;
/// The bucket has room for the burst and for what the rate adds in this time, in nanoseconds. Timers tick in
/// milliseconds and fire late on a busy machine. Without this room, permits would be lost in the meantime, and the rate
/// would never be reached.
const TIMER_SLACK: u128 = 10_000_000;

/// The accumulated permits, in parts: less than 2^65 permits of 10^9 parts, so nothing overflows.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: u64,
    burst: u64,
    parts: u128,
    /// The instant up to which it is filled.
    at: Instant,
}

/// How long to wait for permits that are not available yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// They are available after this time, if nothing changes.
    For(Duration),
    /// They never become available at the current rate of 0.
    ForRate,
}

impl Bucket {
    /// Returns an empty bucket.
    pub(super) fn new(rate: u64, burst: u64, now: Instant) -> Self {
        Bucket { rate, burst, parts: 0, at: now }
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Returns whether the bucket is filled up to a later instant than this.
    pub(super) fn is_filled_past(&self, now: Instant) -> bool {
        self.at > now
    }

    /// Fills the bucket up to `now`.
    pub(super) fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_nanos();
        let more = passed.saturating_mul(self.rate.into());
        self.parts = self.parts.saturating_add(more).min(self.capacity());
        self.at = self.at.max(now);
    }

    /// Sets the rate. Accumulated permits stay, as far as there is room for them.
    pub(super) fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
        self.parts = self.parts.min(self.capacity());
    }

    /// Takes permits, which are at most the burst.
    pub(super) fn take(&mut self, permits: u64) -> Result<(), Wait> {
        match self.wait(permits.into()) {
            Some(wait) => Err(wait),
            None => {
                self.parts -= u128::from(permits) * PARTS;
                Ok(())
            }
        }
    }

    /// Returns how long it takes to accumulate this many permits, if none are lost because the bucket is full; `None`
    /// if they are there.
    pub(super) fn wait(&self, permits: u128) -> Option<Wait> {
        if self.rate == 0 {
            return Some(Wait::ForRate);
        }
        let missing = permits.saturating_mul(PARTS).checked_sub(self.parts).filter(|&missing| missing > 0)?;
        let nanos = missing.div_ceil(self.rate.into());
        Some(Wait::For(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))))
    }

    /// Takes back permits, as far as there is room for them.
    pub(super) fn give_back(&mut self, permits: u64) {
        self.parts = self.parts.saturating_add(u128::from(permits) * PARTS).min(self.capacity());
    }

    /// Returns whether more permits have come since the bucket was last filled than it has room for.
    pub(super) fn overflows(&self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_nanos();
        passed.saturating_mul(self.rate.into()) > self.capacity().saturating_sub(self.parts)
    }

    /// Returns how much the bucket can contain: nothing at a rate of 0.
    fn capacity(&self) -> u128 {
        match self.rate {
            0 => 0,
            rate => u128::from(self.burst) * PARTS + u128::from(rate) * TIMER_SLACK,
        }
    }
}
