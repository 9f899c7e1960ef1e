//! The errors of a semaphore.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

/// An error of an [`InterProcessSemaphore`](super::InterProcessSemaphore).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains that of the cause, so `source` does not repeat it.
    #[error("semaphore at {path}: {}", .error.below(.path))]
    Client {
        /// The path of the semaphore.
        path: Arc<str>,
        /// The cause.
        error: client::Error,
    },
    /// The client has been closed, or the runtime behind it has ended.
    /// [`Client::last_error`](crate::Client::last_error) may tell why.
    #[error("semaphore at {path}: its client has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the semaphore.
        path: Arc<str>,
    },
    /// A permit had been lost before all were released, so another participant may have had it since. Acquire them
    /// again. Its kind is [`ErrorKind::SessionLost`], also if only the connection was suspended.
    #[error(
        "semaphore at {path}: a permit had been lost before the release, so another client may have had it since; \
         acquire again"
    )]
    Lost {
        /// The path of the semaphore.
        path: Arc<str>,
    },
    /// An option, or the number of permits that a call asked for, is out of its range.
    #[error("semaphore at {path}: {why}")]
    InvalidOption {
        /// The path of the semaphore.
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
    /// Returns whether the permits or the client are lost for good.
    lost {}
}
