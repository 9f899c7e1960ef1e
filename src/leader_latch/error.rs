//! The errors of a latch.

use std::sync::Arc;

use crate::client::{self, ErrorKind};

/// An error of a [`LeaderLatch`](super::LeaderLatch).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains that of the cause, so `source` does not repeat it.
    #[error("leader latch at {path}: {error}")]
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
    /// The id is too long.
    #[error("leader latch at {path}: an id of {bytes} bytes; at most {max} are allowed")]
    InvalidId {
        /// The path of the election.
        path: Arc<str>,
        /// The length of the id in bytes.
        bytes: usize,
        /// The largest length in bytes.
        max: usize,
    },
}

impl Error {
    /// Returns the kind of the error, for code that reacts to it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Client { error, .. } => error.kind(),
            Error::Closed { .. } => ErrorKind::Closed,
            Error::InvalidId { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// Returns whether the same call may succeed later without another change.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Client { error, .. } if error.is_retryable())
    }

    /// Returns whether the latch, or its leadership, is lost for good.
    pub fn is_lost(&self) -> bool {
        match self {
            Error::Client { error, .. } => error.is_lost(),
            Error::Closed { .. } => true,
            Error::InvalidId { .. } => false,
        }
    }

    pub(super) fn client(path: &str, error: client::Error) -> Self {
        if error.kind() == ErrorKind::Closed {
            return Error::Closed { path: path.into() };
        }
        Error::Client { path: path.into(), error }
    }
}
