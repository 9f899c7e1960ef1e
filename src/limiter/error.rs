//! What can go wrong with a limiter.

/// An error of a [`ShareLimiter`](super::ShareLimiter).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More permits at once than the burst: so many are never there, at whatever rate.
    #[error("acquire {permits} permits at once: the burst of the limiter is {burst}; see ShareLimiter::with_burst")]
    TooMany {
        /// What was asked for.
        permits: u64,
        /// What the limiter can grant at once.
        burst: u64,
    },
    /// A burst of 0, of which nothing could ever be acquired.
    #[error("the burst of a limiter is 0; it must be at least 1")]
    NoBurst,
    /// The limiter was [closed](super::ShareLimiter::close): it grants nothing any more.
    #[error("the limiter is closed")]
    Closed,
    /// The limiter is driven by a member of a throughput balancer: its rate is the member's share, and nobody else's to set.
    #[error(
        "set the rate of a limiter that follows the share of a throughput balancer's member; \
         take another limiter, or let the member leave first"
    )]
    Driven,
}
