//! The retry policies: when a request that failed with a transient error is sent again.

#[cfg(feature = "backoff")]
mod backoff;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// The shortest delay. Retries without a pause would keep a core busy and load a server that is already in trouble.
const SHORTEST: Duration = Duration::from_millis(1);

/// After this many doublings even one millisecond exceeds the longest possible `Duration`.
const MOST_DOUBLINGS: u32 = 80;

/// Decides when a request that failed with a transient error (a lost connection, for example) is sent again, and when
/// the client gives up.
///
/// The client asks the policy after each failed try. The policy gets the number of *retries* so far (so `n` retries are
/// up to `n + 1` tries, as in Curator) and the time since the operation began. It returns the delay before the next
/// try, or gives up. The client retries only requests that are harmless to repeat, and only after errors that another
/// try can resolve.
///
/// The [default](RetryPolicy::default) suits most programs. A policy is a plain value: it can be cloned and shared by
/// any number of operations, each of which starts from the beginning.
///
/// | policy | delay before a retry | gives up |
/// |---|---|---|
/// | [`exponential`](Self::exponential) | doubles up to a bound, with jitter | never, unless limited |
/// | [`n_times`](Self::n_times) | always the same | after `n` retries |
/// | [`until_elapsed`](Self::until_elapsed) | always the same | after a time |
/// | [`forever`](Self::forever) | always the same | never, unless limited |
/// | [`custom`](Self::custom) | returned by your function | when your function returns `None` |
/// | [`never`](Self::never) | | at once |
///
/// [`max_retries`](Self::max_retries) and [`max_elapsed`](Self::max_elapsed) limit each of them further. If both are
/// set, the limit that is reached first applies.
///
/// Delays are in whole milliseconds and at least one, so that no policy can spin.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use zookeeper_recipes::RetryPolicy;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (shortest, longest) =
///     (Duration::from_millis(100), Duration::from_secs(3));
///
/// // About 100 ms, 200 ms, 400 ms, ... up to 3 s apart; at most 10 retries
/// // and at most one minute.
/// let patient = RetryPolicy::exponential(shortest, longest)?
///     .max_retries(10)
///     .max_elapsed(Duration::from_secs(60));
///
/// // Curator's `RetryNTimes(3, 500)`.
/// let simple = RetryPolicy::n_times(3, Duration::from_millis(500));
///
/// // A custom rule: half a second more each time, for a quarter of an hour.
/// let own = RetryPolicy::custom(|retries, elapsed| {
///     let limit = Duration::from_secs(15 * 60);
///     let delay = Duration::from_millis(500) * retries.saturating_add(1);
///     (elapsed < limit).then_some(delay)
/// });
///
/// // A shortest delay above the longest one is an error.
/// assert!(RetryPolicy::exponential(longest, shortest).is_err());
/// # let _ = (patient, simple, own);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    delays: Backoff,
    max_retries: Option<u32>,
    max_elapsed: Option<Duration>,
}

/// A [`RetryPolicy`] was built from invalid values. The text names the value and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid retry policy: {0}")]
pub struct InvalidRetryPolicy(String);

/// The source of the delays, before the limits.
#[derive(Debug, Clone)]
enum Backoff {
    Never,
    Fixed(Duration),
    Exponential {
        base: Duration,
        max: Duration,
    },
    #[cfg(feature = "backoff")]
    Spread(backoff::Spread),
    Custom(Custom),
}

type CustomFn = dyn Fn(u32, Duration) -> Option<Duration> + Send + Sync;

#[derive(Clone)]
struct Custom(Arc<CustomFn>);

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fn(u32, Duration) -> Option<Duration>")
    }
}

/// Returns the exponential policy from 100 ms to 3 s that gives up 15 s after the operation began.
///
/// Curator has no default policy, but its documentation and most programs use `ExponentialBackoffRetry(1000, 3)`, which
/// lasts about as long as its default connection timeout: 15 s. The default here lasts as long. It begins with shorter
/// delays, because most lost connections return within a fraction of a second.
impl Default for RetryPolicy {
    fn default() -> Self {
        let (base, max) = (Duration::from_millis(100), Duration::from_secs(3));
        Self::of(Backoff::Exponential { base, max }).max_elapsed(Duration::from_secs(15))
    }
}

impl RetryPolicy {
    /// Returns a policy whose delays start at `base`, double with each retry and never exceed `max`, with jitter. The
    /// delay is drawn uniformly from the upper half of the range, so that clients that failed together do not all retry
    /// together.
    ///
    /// Before jitter the delay of retry `r` (from 0) is `min(max, base * 2^r)`, the exponential back-off as the crate
    /// `backon` computes it. (Curator's `BoundedExponentialBackoffRetry` draws a whole multiple of `base` from 1 to
    /// `2^(r+1) - 1` instead, which lets a late retry follow after the shortest delay.)
    ///
    /// It retries forever unless limited by [`max_retries`](Self::max_retries) or [`max_elapsed`](Self::max_elapsed).
    ///
    /// # Errors
    ///
    /// `base` is zero, or greater than `max`.
    #[doc(alias = "ExponentialBackoffRetry")]
    #[doc(alias = "BoundedExponentialBackoffRetry")]
    pub fn exponential(base: Duration, max: Duration) -> Result<Self, InvalidRetryPolicy> {
        check_bounds(base, max)?;
        Ok(Self::of(Backoff::Exponential { base: base.max(SHORTEST), max: max.max(SHORTEST) }))
    }

    /// Returns a policy of `n` retries, `delay` apart. A delay below one millisecond is one millisecond. No retry if
    /// `n` is zero.
    #[doc(alias = "RetryNTimes")]
    #[doc(alias = "RetryOneTime")]
    pub fn n_times(n: u32, delay: Duration) -> Self {
        Self::forever(delay).max_retries(n)
    }

    /// Returns a policy of retries that are `delay` apart, until `max` has passed since the operation began; see
    /// [`max_elapsed`](Self::max_elapsed). A delay below one millisecond is one millisecond.
    #[doc(alias = "RetryUntilElapsed")]
    pub fn until_elapsed(max: Duration, delay: Duration) -> Self {
        Self::forever(delay).max_elapsed(max)
    }

    /// Returns a policy of retries that are `delay` apart, without end. A delay below one millisecond is one
    /// millisecond.
    #[doc(alias = "RetryForever")]
    pub fn forever(delay: Duration) -> Self {
        Self::of(Backoff::Fixed(whole_millis_up(delay)))
    }

    /// Returns a policy that computes its delays with `delay`.
    ///
    /// `delay` gets the number of retries so far (0 after the first try) and the time since the operation began. It
    /// returns the delay before the next try, or `None` to give up. A delay below one millisecond is one millisecond.
    /// The function is called on the tasks of the library: it must not block.
    pub fn custom(delay: impl Fn(u32, Duration) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self::of(Backoff::Custom(Custom(Arc::new(delay))))
    }

    /// Returns a policy without retries: the first failure is the result.
    pub fn never() -> Self {
        Self::of(Backoff::Never)
    }

    /// Limits the policy to `n` retries. Replaces an earlier limit of this kind.
    #[must_use = "the policy is returned, not changed in place"]
    pub fn max_retries(self, n: u32) -> Self {
        Self { max_retries: Some(n), ..self }
    }

    /// Limits the policy to retries within `max` since the operation began. Replaces an earlier limit of this kind.
    ///
    /// A delay that would pass the limit is shortened, so that the last try is made at the limit. The limit ends the
    /// retries; it does not interrupt a try that is under way. There is no retry if `max` is below one millisecond.
    #[must_use = "the policy is returned, not changed in place"]
    pub fn max_elapsed(self, max: Duration) -> Self {
        Self { max_elapsed: Some(max), ..self }
    }

    fn of(delays: Backoff) -> Self {
        Self { delays, max_retries: None, max_elapsed: None }
    }

    /// Returns the delay before the next try, or `None` to give up.
    ///
    /// `attempt` counts the retries so far, `elapsed` the time since the operation began. `jitter` is a random number
    /// from 0 to 1. The caller supplies it so that a test run can be repeated exactly.
    pub(crate) fn delay(&self, attempt: u32, elapsed: Duration, jitter: f64) -> Option<Duration> {
        if self.max_retries.is_some_and(|most| attempt >= most) {
            return None;
        }
        let left = match self.max_elapsed {
            None => Duration::MAX,
            Some(max) => whole_millis(max.saturating_sub(elapsed)),
        };
        if left < SHORTEST {
            return None;
        }
        let delay = self.delays.delay(attempt, elapsed, unit(jitter))?;
        Some(delay.max(SHORTEST).min(left))
    }
}

impl Backoff {
    fn delay(&self, attempt: u32, elapsed: Duration, jitter: f64) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::Fixed(delay) => Some(*delay),
            Self::Exponential { base, max } => Some(upper_half(exponential(*base, *max, attempt), jitter)),
            #[cfg(feature = "backoff")]
            Self::Spread(spread) => Some(spread.delay(attempt, jitter)),
            Self::Custom(Custom(delay)) => delay(attempt, elapsed).map(whole_millis_up),
        }
    }
}

fn check_bounds(base: Duration, max: Duration) -> Result<(), InvalidRetryPolicy> {
    if base.is_zero() {
        return Err(InvalidRetryPolicy("the first delay must be greater than zero".to_owned()));
    }
    if base > max {
        return Err(InvalidRetryPolicy(format!(
            "the first delay {base:?} must not be greater than the longest, {max:?}"
        )));
    }
    Ok(())
}

/// Returns `min(max, base * 2^attempt)`, in whole milliseconds: backon computes in single precision, which is exact to
/// the millisecond for delays of up to four hours.
fn exponential(base: Duration, max: Duration, attempt: u32) -> Duration {
    let mut steps =
        ExponentialBuilder::new().with_factor(2.0).with_min_delay(base).with_max_delay(max).without_max_times().build();
    let step = steps.nth(attempt.min(MOST_DOUBLINGS) as usize).unwrap_or(max);
    nearest_milli(step).min(max)
}

/// Returns a delay from half of `delay` to all of it, chosen by `jitter`.
fn upper_half(delay: Duration, jitter: f64) -> Duration {
    let half = delay / 2;
    whole_millis(half.saturating_add(half.mul_f64(jitter)).min(delay))
}

/// Forces a random number into the range from 0 to 1.
fn unit(jitter: f64) -> f64 {
    if jitter.is_nan() { 0.5 } else { jitter.clamp(0.0, 1.0) }
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::new(duration.as_secs(), duration.subsec_millis() * 1_000_000)
}

fn whole_millis_up(duration: Duration) -> Duration {
    whole_millis(duration.saturating_add(Duration::from_nanos(999_999))).max(SHORTEST)
}

fn nearest_milli(duration: Duration) -> Duration {
    whole_millis(duration.saturating_add(Duration::from_micros(500)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const S: Duration = Duration::from_secs(1);

    fn exponential_policy(base: Duration, max: Duration) -> RetryPolicy {
        RetryPolicy::exponential(base, max).expect("valid bounds")
    }

    /// Returns the delays of an operation whose tries take no time, with the greatest jitter.
    fn run(policy: &RetryPolicy) -> Vec<Duration> {
        let mut elapsed = Duration::ZERO;
        (0..100)
            .map_while(|attempt| {
                let delay = policy.delay(attempt, elapsed, 1.0)?;
                elapsed += delay;
                Some(delay)
            })
            .collect()
    }

    fn millis(delays: &[Duration]) -> Vec<u128> {
        delays.iter().map(Duration::as_millis).collect()
    }

    #[test]
    fn exponential_doubles_up_to_the_bound() {
        let policy = exponential_policy(100 * MS, 3 * S).max_retries(8);
        assert_eq!(millis(&run(&policy)), [100, 200, 400, 800, 1600, 3000, 3000, 3000]);
    }

    #[test]
    fn exponential_jitter_takes_the_upper_half() {
        let policy = exponential_policy(100 * MS, 3 * S);
        for (jitter, expected) in [(0.0, 200), (0.5, 300), (1.0, 400), (-7.0, 200), (7.0, 400), (f64::NAN, 300)] {
            assert_eq!(policy.delay(2, Duration::ZERO, jitter), Some(expected * MS), "{jitter}");
        }
    }

    #[test]
    fn the_default_lasts_fifteen_seconds() {
        let delays = run(&RetryPolicy::default());
        assert_eq!(millis(&delays), [100, 200, 400, 800, 1600, 3000, 3000, 3000, 2900]);
        assert_eq!(delays.iter().sum::<Duration>(), 15 * S);
    }

    #[test]
    fn n_times_is_n_retries() {
        assert_eq!(millis(&run(&RetryPolicy::n_times(3, 500 * MS))), [500, 500, 500]);
        assert!(run(&RetryPolicy::n_times(0, S)).is_empty());
    }

    #[test]
    fn until_elapsed_ends_with_a_try_at_the_limit() {
        let policy = RetryPolicy::until_elapsed(Duration::from_millis(2_500), S);
        assert_eq!(millis(&run(&policy)), [1000, 1000, 500]);
        assert_eq!(policy.delay(0, Duration::from_micros(2_499_500), 0.0), None);
        assert_eq!(policy.delay(0, 10 * S, 0.0), None);
        assert!(run(&RetryPolicy::until_elapsed(Duration::ZERO, S)).is_empty());
    }

    #[test]
    fn forever_and_never() {
        assert_eq!(RetryPolicy::forever(S).delay(u32::MAX, Duration::MAX, 0.0), Some(S));
        assert_eq!(RetryPolicy::never().delay(0, Duration::ZERO, 0.0), None);
        assert_eq!(RetryPolicy::never().max_retries(3).delay(0, Duration::ZERO, 0.0), None);
    }

    #[test]
    fn custom_sees_retries_and_time_and_can_give_up() {
        let policy = RetryPolicy::custom(|retries, elapsed| (retries < 2).then(|| elapsed + S * (retries + 1)));
        assert_eq!(policy.delay(0, 5 * S, 0.3), Some(6 * S));
        assert_eq!(policy.delay(1, Duration::ZERO, 0.3), Some(2 * S));
        assert_eq!(policy.delay(2, Duration::ZERO, 0.3), None);
    }

    #[test]
    fn limits_hold_for_each_policy_and_are_replaced_by_later_ones() {
        let policy = RetryPolicy::custom(|_, _| Some(S));
        assert_eq!(run(&policy.clone().max_retries(4)).len(), 4);
        assert_eq!(run(&policy.clone().max_elapsed(3 * S)).len(), 3);
        assert_eq!(run(&policy.clone().max_retries(2).max_elapsed(3 * S)).len(), 2);
        assert_eq!(run(&policy.clone().max_retries(5).max_elapsed(3 * S)).len(), 3);
        assert_eq!(run(&policy.max_retries(2).max_retries(7)).len(), 7);
        assert_eq!(RetryPolicy::default().max_elapsed(60 * S).delay(9, 20 * S, 1.0), Some(3 * S));
    }

    #[test]
    fn no_policy_spins() {
        let zero = Duration::ZERO;
        for policy in [RetryPolicy::forever(zero), RetryPolicy::custom(|_, _| Some(Duration::ZERO))] {
            assert_eq!(policy.delay(0, zero, 0.0), Some(MS));
        }
        let tiny = exponential_policy(Duration::from_nanos(1), Duration::from_nanos(2));
        assert_eq!(tiny.delay(0, zero, 0.0), Some(MS));
        assert_eq!(tiny.delay(9, zero, 1.0), Some(MS));
    }

    #[test]
    fn senseless_bounds_are_refused() {
        let refused = |base, max| RetryPolicy::exponential(base, max).expect_err("refused").to_string();
        assert_eq!(
            refused(3 * S, 100 * MS),
            "invalid retry policy: the first delay 3s must not be greater than the longest, 100ms"
        );
        assert_eq!(refused(Duration::ZERO, S), "invalid retry policy: the first delay must be greater than zero");
    }

    #[test]
    fn the_longest_durations_do_not_overflow() {
        let policy = exponential_policy(MS, Duration::MAX);
        assert!(policy.delay(u32::MAX, Duration::ZERO, 1.0) > Some(Duration::from_secs(u64::MAX / 2)));
        assert!(RetryPolicy::forever(Duration::MAX).delay(0, Duration::MAX, 1.0).is_some());
        assert!(exponential_policy(Duration::MAX, Duration::MAX).delay(1, Duration::ZERO, 1.0).is_some());
        let both = RetryPolicy::until_elapsed(Duration::MAX, Duration::MAX);
        assert_eq!(both.delay(0, Duration::MAX, 1.0), None);
    }

    #[test]
    fn a_policy_can_be_shown_cloned_and_shared() {
        fn shared<T: Clone + fmt::Debug + Send + Sync + 'static>(value: T) -> String {
            format!("{value:?}")
        }
        assert!(shared(RetryPolicy::custom(|_, _| None)).contains("fn(u32, Duration)"));
    }

    proptest! {
        #[test]
        fn exponential_stays_within_its_formula(
            base in 1..10_000u32, more in 0..100_000u32, attempt in any::<u32>(), jitter in 0.0..=1.0f64,
        ) {
            let (base, max) = (MS * base, MS * (base + more));
            let policy = exponential_policy(base, max);
            let delay = policy.delay(attempt, Duration::ZERO, jitter).expect("no limit");
            let exact = base.saturating_mul(2u32.saturating_pow(attempt)).min(max);
            prop_assert!(delay <= exact, "{:?} of {:?}", delay, exact);
            prop_assert!(delay + MS > exact / 2, "{:?} of {:?}", delay, exact);
            prop_assert_eq!(delay, whole_millis(delay));
        }

        #[test]
        fn any_bounds_and_any_state_give_a_sane_answer(
            bounds: (Duration, Duration), max: Option<Duration>, attempt: u32, elapsed: Duration, jitter: f64,
        ) {
            let (base, longest) = (bounds.0.min(bounds.1).max(MS), bounds.0.max(bounds.1).max(MS));
            let mut policy = exponential_policy(base, longest);
            policy.max_elapsed = max;
            if let Some(delay) = policy.delay(attempt, elapsed, jitter) {
                prop_assert!((MS..=longest).contains(&delay));
                prop_assert!(max.is_none_or(|max| elapsed + delay <= max));
            } else {
                prop_assert!(max.is_some_and(|max| max.saturating_sub(elapsed) < MS));
            }
        }
    }
}
