//! The error of a barrier.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

/// An error of a [`Barrier`](super::Barrier).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The message contains that of the cause, so there is no `source` that would repeat it.
    #[error("barrier at {path}: {}", .error.below(.path))]
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

recipe_error! {
    kind {
        Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
    }
    /// Returns whether the client is closed for good. A barrier belongs to no session, so nothing else can be lost.
    lost {
        Error::Client { .. } => false,
    }
}
