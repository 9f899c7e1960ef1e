//! What can go wrong with a balancer.

use std::sync::Arc;

use crate::client::{self, ErrorKind};

/// An error of a [`ThroughputBalancer`](super::ThroughputBalancer).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text holds that of the cause, so the cause is not told twice as a `source`.
    #[error("throughput balancer at {path}: {error}")]
    Client {
        /// The base path of the balancer.
        path: Arc<str>,
        /// What went wrong.
        error: client::Error,
    },
    /// The member has left the balancer, or its client has been closed.
    #[error("throughput balancer at {path}: the member has left, or the client has been closed")]
    Closed {
        /// The base path of the balancer.
        path: Arc<str>,
    },
    /// An option, or an argument, is out of its range.
    #[error("throughput balancer at {path}: {why}")]
    InvalidOption {
        /// The base path of the balancer.
        path: Arc<str>,
        /// Which value, and what is allowed.
        why: String,
    },
    /// The node of the maximum does not hold a valid maximum.
    #[error("throughput balancer at {path}: its maximum: {why}")]
    InvalidMaximum {
        /// The base path of the balancer.
        path: Arc<str>,
        /// The bytes seen, and what is allowed.
        why: String,
    },
}

impl Error {
    /// Returns the kind of the error, to match on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Client { error, .. } => error.kind(),
            Error::Closed { .. } => ErrorKind::Closed,
            Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
            Error::InvalidMaximum { .. } => ErrorKind::Other,
        }
    }

    /// Returns whether the same call may succeed later without any other change.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Client { error, .. } if error.is_retryable())
    }

    /// Returns whether the balancer is gone for good.
    pub fn is_lost(&self) -> bool {
        match self {
            Error::Client { error, .. } => error.is_lost(),
            Error::Closed { .. } => true,
            Error::InvalidOption { .. } | Error::InvalidMaximum { .. } => false,
        }
    }

    pub(super) fn client(path: &str, error: client::Error) -> Self {
        if error.kind() == ErrorKind::Closed {
            return Error::closed(path);
        }
        Error::Client { path: path.into(), error }
    }

    pub(super) fn closed(path: &str) -> Self {
        Error::Closed { path: path.into() }
    }

    pub(super) fn invalid(path: &str, why: String) -> Self {
        Error::InvalidOption { path: path.into(), why }
    }
}
