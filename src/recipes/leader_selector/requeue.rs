//! When a selector joins the election again after a term.

use std::time::Duration;

/// When a selector joins the election again after a term. By default it does so at once, behind those that wait by
/// then.
///
/// After a failed term (the listener returned an error or panicked) the selector waits longer: up to 0.1 s at first,
/// then twice as long each time, up to 10 s, until a term lasts or its listener returns without an error.
///
/// ```
/// use std::time::Duration;
/// use zookeeper_recipes::leader_selector::RequeuePolicy;
///
/// let policy = RequeuePolicy {
///     delay: Duration::from_secs(1),
///     jitter: Duration::from_secs(1),
///     ..RequeuePolicy::default()
/// };
/// assert_eq!(policy.yield_to_others, Duration::ZERO);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequeuePolicy {
    /// The least time to stay out of the election. Default: zero.
    pub delay: Duration,
    /// The largest random time that is added to `delay`, so that the leaderships of many paths spread over the
    /// participants. Default: zero.
    pub jitter: Duration,
    /// The longest time, after the two delays above, to stay out of an election without participants, so that others
    /// can join first: those that are starting, or that stay out themselves. The selector joins after this time, or as
    /// soon as there is a participant. Default: zero.
    pub yield_to_others: Duration,
}
