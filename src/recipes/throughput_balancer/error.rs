//! What can go wrong with a balancer.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

/// An error of a [`ThroughputBalancer`](super::ThroughputBalancer).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains that of the cause, so the cause is not repeated as a `source`.
    #[error("throughput balancer at {path}: {}", .error.below(.path))]
    Client {
        /// The base path of the balancer.
        path: Arc<str>,
        /// What went wrong.
        error: client::Error,
    },
    /// The member has left the balancer, or its client has been closed.
    #[error("throughput balancer at {path}: the member has left, or the client has been closed")]
    Closed {
        /// The base path of the balancer.
        path: Arc<str>,
    },
    /// An option, or an argument, is out of its range.
    #[error("throughput balancer at {path}: {why}")]
    InvalidOption {
        /// The base path of the balancer.
        path: Arc<str>,
        /// Which value, and what is allowed.
        why: String,
    },
    /// The node of the maximum does not contain a valid maximum.
    #[error("throughput balancer at {path}: its maximum: {why}")]
    InvalidMaximum {
        /// The base path of the balancer.
        path: Arc<str>,
        /// The bytes seen, and what is allowed.
        why: String,
    },
}

recipe_error! {
    kind {
        Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
        Error::InvalidMaximum { .. } => ErrorKind::Other,
    }
    /// Returns whether the member has left or its client is closed, for good.
    lost {}
}

impl Error {
    pub(super) fn closed(path: &str) -> Self {
        Error::Closed { path: path.into() }
    }

    pub(super) fn invalid(path: &str, why: String) -> Self {
        Error::InvalidOption { path: path.into(), why }
    }
}
