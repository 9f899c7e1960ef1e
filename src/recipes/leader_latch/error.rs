//! The errors of a latch.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

/// An error of a [`LeaderLatch`](super::LeaderLatch).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains that of the cause, so `source` does not repeat it.
    #[error("leader latch at {path}: {}", .error.below(.path))]
    Client {
        /// The path of the election.
        path: Arc<str>,
        /// The cause.
        error: client::Error,
    },
    /// The latch or its client has been closed, or the runtime behind it has ended.
    /// [`Client::last_error`](crate::Client::last_error) may tell why.
    #[error("leader latch at {path}: it, or its client, has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the election.
        path: Arc<str>,
    },
    /// An option is out of its range.
    #[error("leader latch at {path}: {why}")]
    InvalidOption {
        /// The path of the election.
        path: Arc<str>,
        /// The value, and what is allowed.
        why: String,
    },
}

recipe_error! {
    kind {
        Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
    }
    /// Returns whether the latch, or its leadership, is lost for good.
    lost {}
}
