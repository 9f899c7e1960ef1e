//! When a command gets SIGTERM, and when SIGKILL: pure functions of the clock.

use std::time::Duration;

use super::lease_file::Moment;

/// What is to be done about the command now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// It may run.
    Nothing,
    /// SIGTERM: it should end by itself.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// The times by which a command is ended.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// How long it may take to end after SIGTERM.
    grace: Duration,
    /// How long before SIGKILL it gets SIGTERM, if the lease is about to end.
    lead: Duration,
    /// How long before the end of the lease it gets SIGKILL: longer than a look at the clock takes, and longer than the
    /// system needs for a SIGKILL.
    margin: Duration,
    /// How much more of the lease must be left when a command is started, so that it is not told to end at once.
    start: Duration,
    /// How often the clock is checked.
    pub interval: Duration,
}

impl Schedule {
    /// Returns the schedule for a granted session timeout, and the least that may be granted after a reconnect. For a
    /// while after a reconnect the lease may last no longer than that, and is extended when two thirds of it are left.
    pub fn new(timeout: Duration, least: Duration, grace: Duration) -> Self {
        Schedule {
            grace,
            lead: grace.min(least / 4),
            margin: (timeout / 10).clamp(Duration::from_millis(50), Duration::from_secs(1)).min(least / 3),
            start: least / 20,
            interval: (timeout / 50).clamp(Duration::from_millis(10), Duration::from_millis(200)),
        }
    }

    /// Returns what is due at a moment. `end` is the end of the lease, `None` if it is not known; `told` is when the
    /// command was told to end, if it was.
    pub fn due(&self, now: Moment, end: Option<Moment>, told: Option<Moment>) -> Due {
        let Some(end) = end else { return Due::Kill };
        let kill = end.before(self.margin);
        if now >= kill || told.is_some_and(|told| now >= told.after(self.grace)) {
            Due::Kill
        } else if now >= kill.before(self.lead) {
            Due::Terminate
        } else {
            Due::Nothing
        }
    }

    /// Returns whether the lease lasts long enough to start a command.
    pub fn may_start(&self, now: Moment, end: Moment) -> bool {
        self.due(now.after(self.start), Some(end), None) == Due::Nothing
    }

    /// Returns whether the lease is so near its end that the supervisor, which should have ended the command, does not
    /// look at the clock.
    pub fn is_overdue(&self, now: Moment, end: Moment) -> bool {
        now >= end.before(self.margin / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(10);
    const LEAST: Duration = Duration::from_secs(4);

    fn schedule() -> Schedule {
        Schedule::new(T, LEAST, Duration::from_secs(5))
    }

    fn at(ms: u64, end_ms: u64, told_ms: Option<u64>) -> Due {
        let start = Moment::now();
        let moment = |ms| start.after(Duration::from_millis(ms));
        schedule().due(moment(ms), Some(moment(end_ms)), told_ms.map(moment))
    }

    #[test]
    fn a_command_is_told_to_end_and_is_killed_before_the_lease_ends() {
        let due: Vec<_> = [0, 7_999, 8_000, 8_999, 9_000, 20_000].map(|ms| at(ms, 10_000, None)).into();
        assert_eq!(due, [Due::Nothing, Due::Nothing, Due::Terminate, Due::Terminate, Due::Kill, Due::Kill]);
    }

    #[test]
    fn one_that_was_told_early_has_its_grace() {
        assert_eq!(at(4_999, 10_000, Some(0)), Due::Nothing);
        assert_eq!(at(5_000, 10_000, Some(0)), Due::Kill);
        assert_eq!(at(9_000, 10_000, Some(8_999)), Due::Kill, "but not beyond the lease");
    }

    #[test]
    fn a_command_is_not_started_when_it_would_soon_be_told_to_end() {
        let start = Moment::now();
        let may_start = |ms| schedule().may_start(start.after(Duration::from_millis(ms)), start.after(T));
        assert!(may_start(0) && may_start(7_799) && !may_start(7_800));
    }

    #[test]
    fn one_whose_lease_is_short_after_a_reconnect_runs_on() {
        for (timeout, least) in [(40_000, 4_000), (10_000, 4_000), (3_000, 1_000), (1_000, 500)] {
            let [timeout, least] = [timeout, least].map(Duration::from_millis);
            let schedule = Schedule::new(timeout, least, Duration::from_secs(60));
            let now = Moment::now();
            // Just before the lease is extended.
            let end = now.after(least * 2 / 3);
            assert_eq!(schedule.due(now, Some(end), None), Due::Nothing, "{schedule:?}");
            assert!(schedule.may_start(now, end), "{schedule:?}");
        }
    }

    #[test]
    fn a_lease_that_is_not_known_is_over() {
        assert_eq!(schedule().due(Moment::now(), None, None), Due::Kill);
    }

    #[test]
    fn what_has_no_end_is_never_due() {
        assert_eq!(schedule().due(Moment::now(), Some(Moment::NEVER), None), Due::Nothing);
    }
}
