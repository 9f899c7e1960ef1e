//! The error of a barrier.

use std::sync::Arc;

use crate::client::{self, ErrorKind};

/// An error of a [`Barrier`](super::Barrier).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The message contains that of the cause, so there is no `source` that would repeat it.
    #[error("barrier at {path}: {error}")]
    Client {
        /// The path of the barrier.
        path: Arc<str>,
        /// What went wrong.
        error: client::Error,
    },
    /// The client has been closed, or the runtime behind it has ended; see
    /// [`Client::last_error`](crate::Client::last_error).
    #[error("barrier at {path}: its client has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the barrier.
        path: Arc<str>,
    },
    /// An option is out of its range.
    #[error("barrier at {path}: {why}")]
    InvalidOption {
        /// The path of the barrier.
        path: Arc<str>,
        /// The rejected value, and the allowed range.
        why: String,
    },
}

impl Error {
    /// Returns the kind of the error, for code that decides how to react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Client { error, .. } => error.kind(),
            Error::Closed { .. } => ErrorKind::Closed,
            Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// Returns whether the same call may succeed later without any intervention.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Client { error, .. } if error.is_retryable())
    }

    /// Returns whether the client is closed for good. A barrier belongs to no session, so nothing else can be lost.
    pub fn is_lost(&self) -> bool {
        matches!(self, Error::Closed { .. })
    }

    pub(super) fn client(path: &str, error: client::Error) -> Self {
        if error.kind() == ErrorKind::Closed {
            return Error::Closed { path: path.into() };
        }
        Error::Client { path: path.into(), error }
    }
}
