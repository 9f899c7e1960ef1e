//! The clock by which leases are measured.
//!
//! It continues while the process is stopped (SIGSTOP), and while the machine sleeps on these systems:
//!
//! | system | clock |
//! |---|---|
//! | Linux, Android, Fuchsia, OpenBSD | CLOCK_BOOTTIME |
//! | macOS, iOS and their like | CLOCK_MONOTONIC, unlike the clock of the standard library there |
//! | Windows | QueryPerformanceCounter, by the standard library |
//!
//! On other systems it may stop while the machine sleeps. A pause of a virtual machine, or its restore from a snapshot,
//! cannot be detected from inside. Only a fence covers these cases.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment on a [`Clock`]: the time since some fixed, unnamed start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, after: Duration) -> Instant {
        Instant(self.0.saturating_add(after))
    }
}

impl std::ops::Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, before: Duration) -> Instant {
        Instant(self.0.saturating_sub(before))
    }
}

const UP_BEFORE: Duration = Duration::from_secs(1_000_000);

/// A source of time, cheap to copy and to read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Clock {
    /// The machine's clock.
    #[default]
    Machine,
    /// Tokio's clock, which a test can pause. Measures the time since `start`.
    Tokio {
        start: tokio::time::Instant,
        /// The time of day at the start, since 1970.
        time_of_day: Duration,
    },
}

impl Clock {
    /// Tokio's clock, on which this moment is the beginning of 1970.
    #[cfg(test)]
    pub(crate) fn tokio(start: tokio::time::Instant) -> Self {
        Clock::Tokio { start, time_of_day: Duration::ZERO }
    }

    pub(crate) fn now(&self) -> Instant {
        match self {
            Clock::Machine => Instant(boot_time()),
            // Starts above zero, so that there is a time before the start.
            Clock::Tokio { start, .. } => Instant(UP_BEFORE + start.elapsed()),
        }
    }

    /// Returns the time of day. It is for comparisons with other machines only: it may jump, and no two machines agree
    /// on it.
    pub(crate) fn time_of_day(&self) -> SystemTime {
        match self {
            Clock::Machine => SystemTime::now(),
            Clock::Tokio { start, time_of_day } => UNIX_EPOCH + *time_of_day + start.elapsed(),
        }
    }

    /// Sleeps until `at`. Timers of the runtime may stop while the machine sleeps, so this can be late; code that must
    /// be right compares the clock.
    pub(crate) async fn sleep_until(&self, at: Instant) {
        let left = at.since(self.now());
        if !left.is_zero() {
            tokio::time::sleep(left).await;
        }
    }
}

#[cfg(unix)]
fn boot_time() -> Duration {
    use rustix::time::ClockId;
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia", target_os = "openbsd"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "fuchsia", target_os = "openbsd")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let now = rustix::time::clock_gettime(CLOCK);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[cfg(not(unix))]
fn boot_time() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_forward_and_differences_never_go_below_zero() {
        let clock = Clock::Machine;
        let first = clock.now();
        let second = clock.now();
        assert!(second >= first);
        assert_eq!(first.since(first + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!((first + Duration::from_secs(2)).since(first), Duration::from_secs(2));
    }
}
