//! Waits until comings and goings have calmed down, but not for ever.

use std::time::Duration;

use tokio::time::Instant;

/// Since when there is something to decide.
#[derive(Debug)]
pub(super) struct Quiet {
    quiet: Duration,
    at_most: Duration,
    /// The first disturbance that was not acted on yet, and the last.
    disturbed: Option<(Instant, Instant)>,
    /// Act at once.
    now: bool,
}

impl Quiet {
    pub(super) fn new(quiet: Duration, at_most: Duration) -> Self {
        Quiet { quiet, at_most, disturbed: None, now: false }
    }

    /// Somebody came or went.
    pub(super) fn disturb(&mut self, now: Instant) {
        let first = self.disturbed.map_or(now, |(first, _)| first);
        self.disturbed = Some((first, now));
    }

    /// It is not to be waited for.
    pub(super) fn end(&mut self) {
        self.now = true;
    }

    /// When to act. A time beyond the end of the clock never comes.
    pub(super) fn due(&self) -> Option<Instant> {
        let (first, last) = self.disturbed?;
        let times = [last.checked_add(self.quiet), first.checked_add(self.at_most)];
        times.into_iter().flatten().min()
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.now || self.due().is_some_and(|due| now >= due)
    }

    /// It was acted on.
    pub(super) fn settle(&mut self) {
        (self.disturbed, self.now) = (None, false);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.disturbed.is_none() && !self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_when_nothing_happened_for_a_while_or_when_it_has_lasted_too_long() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let mut quiet = Quiet::new(Duration::from_millis(200), Duration::from_secs(2));
        assert!(quiet.is_settled() && !quiet.is_over(at(0)));
        quiet.disturb(at(0));
        assert!(!quiet.is_over(at(199)) && quiet.is_over(at(200)));
        for tenth in 1..30 {
            quiet.disturb(at(tenth * 100));
        }
        assert!(!quiet.is_over(at(1_999)) && quiet.is_over(at(2_000)));
        quiet.settle();
        assert!(quiet.due().is_none());
        quiet.end();
        assert!(quiet.is_over(at(0)));
    }
}
