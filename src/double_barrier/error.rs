//! The error of a double barrier.

use std::sync::Arc;

use crate::client::{self, ErrorKind};

/// An error of a [`DoubleBarrier`](super::DoubleBarrier).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed, or the session ended.
    // The message contains that of the cause, so there is no `source` that would repeat it.
    #[error("double barrier at {path}: {error}")]
    Client {
        /// The path of the barrier.
        path: Arc<str>,
        /// What went wrong.
        error: client::Error,
    },
    /// The client has been closed, or the runtime behind it has ended; see
    /// [`Client::last_error`](crate::Client::last_error).
    #[error("double barrier at {path}: its client has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the barrier.
        path: Arc<str>,
    },
    /// Another call on the same object is under way. An object is one member; create another object for another member.
    #[error(
        "double barrier at {path}: another call on this object is under way; an object is one member, so make another \
         one for another member"
    )]
    Busy {
        /// The path of the barrier.
        path: Arc<str>,
    },
    /// `enter` was called while the member was inside.
    #[error("double barrier at {path}: this member is inside already; leave before entering again")]
    AlreadyInside {
        /// The path of the barrier.
        path: Arc<str>,
    },
    /// `leave` was called while the member was outside.
    #[error("double barrier at {path}: this member is not inside; enter before leaving")]
    NotInside {
        /// The path of the barrier.
        path: Arc<str>,
    },
    /// Another client deleted the node of this member while the member was inside. The others may have left without
    /// waiting for it.
    #[error(
        "double barrier at {path}: the node {node} of this member was deleted by somebody else while it was inside"
    )]
    NodeDeleted {
        /// The path of the barrier.
        path: Arc<str>,
        /// The path of the node, as the server names it.
        node: Arc<str>,
    },
    /// An option is out of its range.
    #[error("double barrier at {path}: {why}")]
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
            Error::Busy { .. }
            | Error::AlreadyInside { .. }
            | Error::NotInside { .. }
            | Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
            Error::NodeDeleted { .. } => ErrorKind::NoNode,
        }
    }

    /// Returns whether the same call may succeed later without any intervention. After an error for which
    /// [`is_lost`](Error::is_lost) is true, call `enter` and not the same call again: whatever `leave` returns, the
    /// member is outside.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Client { error, .. } if error.is_retryable())
    }

    /// Returns whether the place in the round was lost, or the client is closed for good.
    pub fn is_lost(&self) -> bool {
        match self {
            Error::Client { error, .. } => error.is_lost(),
            Error::Closed { .. } | Error::NodeDeleted { .. } => true,
            _ => false,
        }
    }

    /// The deletion of an earlier call's node has not been confirmed yet.
    pub(super) fn left_behind(path: &str) -> Self {
        let message =
            format!("enter {path}: the node of an earlier call may stand yet; it is deleted in the background");
        Error::client(path, client::Error::new(ErrorKind::OutcomeUnknown, message))
    }

    /// The time was up before there was a connection.
    pub(super) fn no_server_asked(path: &str) -> Self {
        let message = format!("enter {path}: no server could be asked in time");
        Error::client(path, client::Error::new(ErrorKind::TimedOut, message))
    }

    pub(super) fn client(path: &str, error: client::Error) -> Self {
        if error.kind() == ErrorKind::Closed {
            return Error::Closed { path: path.into() };
        }
        Error::Client { path: path.into(), error }
    }
}
