//! The errors of a mutex.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

/// An error of an [`InterProcessMutex`](super::InterProcessMutex).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains that of the cause, so `source` does not repeat it.
    #[error("mutex at {path}: {}", .error.below(.path))]
    Client {
        /// The path of the mutex.
        path: Arc<str>,
        /// The cause.
        error: client::Error,
    },
    /// The client has been closed, or the runtime behind it has ended.
    /// [`Client::last_error`](crate::Client::last_error) may tell why.
    #[error("mutex at {path}: its client has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the mutex.
        path: Arc<str>,
    },
    /// The lock had been lost before it was released or re-entered, so another participant may have held it since.
    /// Acquire it again.
    #[error(
        "mutex at {path}: the lock had been lost before this call, so another client may have held it since; acquire \
         it again"
    )]
    Lost {
        /// The path of the mutex.
        path: Arc<str>,
    },
    /// An option is out of its range.
    #[error("mutex at {path}: {why}")]
    InvalidOption {
        /// The path of the mutex.
        path: Arc<str>,
        /// The value, and what is allowed.
        why: String,
    },
}

recipe_error! {
    kind {
        Error::Lost { .. } => ErrorKind::SessionLost,
        Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
    }
    /// Returns whether the lock or the client is lost for good.
    lost {}
}
