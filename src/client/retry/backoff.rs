//! Converts the settings of the crate `backoff` into a [`RetryPolicy`].
//!
//! That crate is unmaintained (RUSTSEC-2025-0012), so this is for programs that already use its settings.

use std::time::Duration;

use super::{Backoff, InvalidRetryPolicy, RetryPolicy, nearest_milli};

/// The growth of `backoff::ExponentialBackoff`: a multiplier, and a spread to both sides of the interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    initial: Duration,
    multiplier: f64,
    max: Duration,
    /// The width of the spread, as a fraction of the interval: 0 for none, 1 from zero to twice the interval.
    factor: f64,
}

impl Spread {
    pub(super) fn delay(&self, attempt: u32, jitter: f64) -> Duration {
        let grown = self.initial.as_secs_f64() * self.multiplier.powf(f64::from(attempt));
        let interval = seconds(grown).min(self.max).as_secs_f64();
        nearest_milli(seconds(interval * (1.0 + self.factor * (2.0 * jitter - 1.0))))
    }
}

/// Converts seconds; a value that is too large becomes the longest `Duration`.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Copies the initial interval, the multiplier, the greatest interval, the randomization factor and the greatest
/// elapsed time. The current interval, the start time and the clock belong to a run and not to a policy: each operation
/// starts from the beginning.
///
/// The randomization works as in `backoff`, so a delay may be longer than `max_interval` by the randomization factor.
/// Two things differ. No delay is shorter than one millisecond. Where `backoff` gives up because the next delay would
/// pass `max_elapsed_time`, the delay is shortened for one last try.
///
/// # Errors
///
/// The initial interval is zero or greater than the greatest one, the multiplier is not a number from 1 up, or the
/// randomization factor is not from 0 to 1.
impl TryFrom<::backoff::ExponentialBackoff> for RetryPolicy {
    type Error = InvalidRetryPolicy;

    fn try_from(settings: ::backoff::ExponentialBackoff) -> Result<Self, InvalidRetryPolicy> {
        let policy = Self::of(Backoff::Spread(checked(&settings)?));
        Ok(match settings.max_elapsed_time {
            Some(max) => policy.max_elapsed(max),
            None => policy,
        })
    }
}

fn checked(settings: &::backoff::ExponentialBackoff) -> Result<Spread, InvalidRetryPolicy> {
    let (multiplier, factor) = (settings.multiplier, settings.randomization_factor);
    super::check_bounds(settings.initial_interval, settings.max_interval)?;
    if !(multiplier.is_finite() && multiplier >= 1.0) {
        return Err(InvalidRetryPolicy(format!("the multiplier {multiplier} must be a number from 1 up")));
    }
    if !(0.0..=1.0).contains(&factor) {
        return Err(InvalidRetryPolicy(format!("the randomization factor {factor} must be from 0 to 1")));
    }
    Ok(Spread { initial: settings.initial_interval, multiplier, max: settings.max_interval, factor })
}

#[cfg(test)]
mod tests {
    use ::backoff::ExponentialBackoff;
    use proptest::prelude::*;

    use super::*;

    fn settings() -> ExponentialBackoff {
        ExponentialBackoff {
            initial_interval: Duration::from_millis(200),
            multiplier: 1.5,
            max_interval: Duration::from_secs(1),
            randomization_factor: 0.5,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        }
    }

    fn millis(policy: &RetryPolicy, attempt: u32, jitter: f64) -> Option<u128> {
        policy.delay(attempt, Duration::ZERO, jitter).map(|delay| delay.as_millis())
    }

    #[test]
    fn interval_multiplier_and_maximum_are_honoured() {
        let policy = RetryPolicy::try_from(settings()).expect("valid");
        let middle: Vec<_> = (0..7).filter_map(|attempt| millis(&policy, attempt, 0.5)).collect();
        assert_eq!(middle, [200, 300, 450, 675, 1000, 1000, 1000]);
        assert_eq!(millis(&policy, u32::MAX, 0.5), Some(1000));
    }

    #[test]
    fn randomization_spreads_to_both_sides() {
        let policy = RetryPolicy::try_from(settings()).expect("valid");
        assert_eq!((millis(&policy, 0, 0.0), millis(&policy, 0, 1.0)), (Some(100), Some(300)));
        assert_eq!((millis(&policy, 9, 0.0), millis(&policy, 9, 1.0)), (Some(500), Some(1500)));
        let exact = ExponentialBackoff { randomization_factor: 0.0, ..settings() };
        let policy = RetryPolicy::try_from(exact).expect("valid");
        assert_eq!((millis(&policy, 1, 0.0), millis(&policy, 1, 1.0)), (Some(300), Some(300)));
    }

    #[test]
    fn the_greatest_elapsed_time_is_honoured() {
        let limited = ExponentialBackoff { max_elapsed_time: Some(Duration::from_secs(5)), ..settings() };
        let policy = RetryPolicy::try_from(limited).expect("valid");
        assert_eq!(policy.delay(9, Duration::from_millis(4_900), 0.5), Some(Duration::from_millis(100)));
        assert_eq!(policy.delay(9, Duration::from_secs(5), 0.5), None);
        assert!(RetryPolicy::try_from(settings()).expect("valid").delay(9, Duration::MAX, 0.5).is_some());
    }

    #[test]
    fn a_run_that_has_begun_starts_again() {
        let begun = ExponentialBackoff { current_interval: Duration::from_secs(60), ..settings() };
        assert_eq!(millis(&RetryPolicy::try_from(begun).expect("valid"), 0, 0.5), Some(200));
    }

    #[test]
    fn the_default_of_backoff_is_taken() {
        let policy = RetryPolicy::try_from(ExponentialBackoff::default()).expect("valid");
        assert_eq!(millis(&policy, 0, 0.5), Some(500));
    }

    #[test]
    fn senseless_settings_are_refused() {
        let refused = |settings: ExponentialBackoff| RetryPolicy::try_from(settings).expect_err("refused").to_string();
        for multiplier in [0.0, -1.0, 0.5, f64::NAN, f64::INFINITY] {
            let text = refused(ExponentialBackoff { multiplier, ..settings() });
            assert!(text.contains(&format!("the multiplier {multiplier} must")), "{text}");
        }
        for randomization_factor in [-0.1, 1.1, f64::NAN] {
            let text = refused(ExponentialBackoff { randomization_factor, ..settings() });
            assert!(text.contains(&format!("the randomization factor {randomization_factor} must")), "{text}");
        }
        refused(ExponentialBackoff { initial_interval: Duration::ZERO, ..settings() });
        refused(ExponentialBackoff { max_interval: Duration::from_millis(199), ..settings() });
    }

    proptest! {
        #[test]
        fn a_delay_stays_within_the_spread(
            attempt in any::<u32>(), jitter in 0.0..=1.0f64, multiplier in 1.0..1e9f64,
        ) {
            let settings = ExponentialBackoff { multiplier, ..settings() };
            let policy = RetryPolicy::try_from(settings).expect("valid");
            let delay = policy.delay(attempt, Duration::ZERO, jitter).expect("no limit");
            prop_assert!((100..=1500).contains(&delay.as_millis()), "{:?}", delay);
        }
    }
}
