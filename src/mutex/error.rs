//! The errors of a mutex.

use std::sync::Arc;

use crate::client::{self, ErrorKind};

/// An error of an [`InterProcessMutex`](super::InterProcessMutex).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains that of the cause, so `source` does not repeat it.
    #[error("mutex at {path}: {error}")]
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

impl Error {
    /// Returns the kind of the error, for code that reacts to it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Client { error, .. } => error.kind(),
            Error::Closed { .. } => ErrorKind::Closed,
            Error::Lost { .. } => ErrorKind::SessionLost,
            Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// Returns whether the same call may succeed later without another change.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Client { error, .. } if error.is_retryable())
    }

    /// Returns whether the lock or the client is lost for good.
    pub fn is_lost(&self) -> bool {
        match self {
            Error::Client { error, .. } => error.is_lost(),
            Error::Closed { .. } | Error::Lost { .. } => true,
            Error::InvalidOption { .. } => false,
        }
    }

    pub(super) fn client(path: &str, error: client::Error) -> Self {
        if error.kind() == ErrorKind::Closed {
            return Error::Closed { path: path.into() };
        }
        Error::Client { path: path.into(), error }
    }
}
