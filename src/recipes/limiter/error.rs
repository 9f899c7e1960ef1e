//! The errors of a limiter.

/// An error of a [`ShareLimiter`](super::ShareLimiter).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More permits at once than the burst. That many are never available, at any rate.
    #[error("acquire {permits} permits at once: the burst of the limiter is {burst}; see ShareLimiter::with_burst")]
    TooMany {
        /// How many were requested.
        permits: u64,
        /// How many the limiter can grant at once.
        burst: u64,
    },
    /// A burst of 0, of which nothing could ever be acquired.
    #[error("the burst of a limiter is 0; it must be at least 1")]
    NoBurst,
    /// The limiter was [closed](super::ShareLimiter::close) and no longer grants permits.
    #[error("the limiter is closed")]
    Closed,
    /// A member of a throughput balancer drives the limiter: its rate is the member's share, and no other code can set
    /// it.
    #[error(
        "set the rate of a limiter that follows the share of a throughput balancer's member; \
         take another limiter, or let the member leave first"
    )]
    Driven,
}
