//! The errors of a multi-lock.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

/// An error of an [`InterProcessMultiLock`](super::InterProcessMultiLock).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains that of the cause, so `source` does not repeat it.
    #[error("multi-lock, its lock at {path}: {}", .error.below(.path))]
    Client {
        /// The path of the lock that failed.
        path: Arc<str>,
        /// The cause.
        error: client::Error,
    },
    /// The client has been closed, or the runtime behind it has ended.
    /// [`Client::last_error`](crate::Client::last_error) may tell why.
    #[error("multi-lock, its lock at {path}: its client has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the lock that was waited for.
        path: Arc<str>,
    },
    /// One of the locks had been lost before all were released, so another participant may have held it since. Acquire
    /// them again. Its kind is [`ErrorKind::SessionLost`], also if only the connection was suspended.
    #[error(
        "multi-lock, its lock at {path}: the lock had been lost before the release, so another client may have held it \
         since; acquire all again"
    )]
    Lost {
        /// The path of the lock that was lost.
        path: Arc<str>,
    },
    /// The locks cannot be one.
    #[error("multi-lock: {why}")]
    InvalidOption {
        /// Which of them, and what is allowed.
        why: String,
    },
}

recipe_error! {
    kind {
        Error::Lost { .. } => ErrorKind::SessionLost,
        Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
    }
    /// Returns whether the locks or the client are lost for good.
    lost {}
}
