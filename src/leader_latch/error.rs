//! What can go wrong with a latch.

use std::sync::Arc;

use crate::client::{self, ErrorKind};

/// An error of a [`LeaderLatch`](super::LeaderLatch).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ensemble, or the way to it, is in the way.
    // The text holds that of the cause, so the cause is not told twice as a `source`.
    #[error("leader latch at {path}: {error}")]
    Client {
        /// The path of the election.
        path: Arc<str>,
        /// What went wrong.
        error: client::Error,
    },
    /// The latch, or its client, has been closed, or the runtime behind it has ended: see
    /// [`Client::last_error`](crate::Client::last_error).
    #[error("leader latch at {path}: it, or its client, has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the election.
        path: Arc<str>,
    },
    /// The id does not fit.
    #[error("leader latch at {path}: an id of {bytes} bytes; at most {max} are allowed")]
    InvalidId {
        /// The path of the election.
        path: Arc<str>,
        /// How long the id is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
}

impl Error {
    /// What went wrong, to decide by.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Client { error, .. } => error.kind(),
            Error::Closed { .. } => ErrorKind::Closed,
            Error::InvalidId { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Client { error, .. } if error.is_retryable())
    }

    /// Whether the latch, or what it held, is gone for good.
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
