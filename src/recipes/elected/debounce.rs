//! Waits until members stop joining and leaving, up to a limit.

use std::time::Duration;

use tokio::time::Instant;

/// Records since when there has been something to decide.
#[derive(Debug)]
pub(crate) struct Debounce {
    quiet: Duration,
    at_most: Duration,
    /// The first disturbance since the last decision, and the latest.
    disturbed: Option<(Instant, Instant)>,
    /// The next decision does not wait.
    now: bool,
}

impl Debounce {
    /// Starts without a wait: what a new leader finds may already have waited for earlier leaders.
    pub(crate) fn new(quiet: Duration, at_most: Duration) -> Self {
        Debounce { quiet, at_most, disturbed: None, now: true }
    }

    /// Notes that a member joined or left.
    pub(crate) fn disturb(&mut self, now: Instant) {
        let first = self.disturbed.map_or(now, |(first, _)| first);
        self.disturbed = Some((first, now));
    }

    /// Ends the wait: the next decision is made at once.
    pub(crate) fn skip(&mut self) {
        self.now = true;
    }

    /// Returns when to decide, unless nothing has changed. A time beyond the end of the clock is never reached.
    pub(crate) fn due(&self) -> Option<Instant> {
        let (first, last) = self.disturbed?;
        let times = [last.checked_add(self.quiet), first.checked_add(self.at_most)];
        times.into_iter().flatten().min()
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.now || self.due().is_some_and(|due| now >= due)
    }

    /// Notes that a decision was made.
    pub(crate) fn settle(&mut self) {
        (self.disturbed, self.now) = (None, false);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.disturbed.is_none() && !self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_waits_for_calm_or_until_it_has_waited_too_long() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let mut debounce = Debounce::new(Duration::from_millis(200), Duration::from_secs(2));
        assert!(debounce.is_over(at(0)) && !debounce.is_settled(), "the first decision does not wait");
        debounce.settle();
        assert!(debounce.is_settled() && !debounce.is_over(at(0)));
        debounce.disturb(at(0));
        assert!(!debounce.is_over(at(199)) && debounce.is_over(at(200)));
        for tenth in 1..30 {
            debounce.disturb(at(tenth * 100));
        }
        assert!(!debounce.is_over(at(1_999)) && debounce.is_over(at(2_000)));
        debounce.settle();
        assert!(debounce.due().is_none());
        debounce.skip();
        assert!(debounce.is_over(at(0)));
    }
}
