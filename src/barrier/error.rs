//! What can go wrong at a barrier.

use std::sync::Arc;

use crate::client::{self, ErrorKind};

/// An error of a [`Barrier`](super::Barrier).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ensemble, or the way to it, is in the way.
    // The text holds that of the cause, so the cause is not told twice as a `source`.
    #[error("barrier at {path}: {error}")]
    Client {
        /// The path of the barrier.
        path: Arc<str>,
        /// What went wrong.
        error: client::Error,
    },
    /// The client has been closed, or the runtime behind it has ended: see [`Client::last_error`](crate::Client::last_error).
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
        /// Which value, and what is allowed.
        why: String,
    },
}

impl Error {
    /// What went wrong, to decide by.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Client { error, .. } => error.kind(),
            Error::Closed { .. } => ErrorKind::Closed,
            Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Client { error, .. } if error.is_retryable())
    }

    /// Whether the client is gone for good. A barrier belongs to no session, so nothing else is ever lost.
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
