//! Moments that all processes of this machine can compare.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on CLOCK_MONOTONIC, which advances while a process is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) fn now() -> Moment {
        let now = clock_gettime(ClockId::Monotonic);
        Moment(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
    }

    /// Milliseconds from `earlier` to this; negative if it was before.
    pub(crate) fn millis_since(self, earlier: Moment) -> f64 {
        let nanos = i128::from(self.0) - i128::from(earlier.0);
        nanos as f64 / 1e6
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, after: Duration) -> Moment {
        Moment(self.0 + u64::try_from(after.as_nanos()).expect("a short time"))
    }
}
