//! What can go wrong with a balancer.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

recipe_error! {
    /// An error of a [`ThroughputBalancer`](super::ThroughputBalancer).
    "throughput balancer at", closed: "the member has left, or the client has been closed";
    {
        /// The node of the maximum does not contain a valid maximum.
        #[error("throughput balancer at {path}: its maximum: {why}")]
        InvalidMaximum {
            /// The base path of the balancer.
            path: Arc<str>,
            /// The bytes seen, and what is allowed.
            why: String,
        },
    }
    kind {
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
