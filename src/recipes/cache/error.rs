//! The error of a cache.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

/// An error of a [`Cache`](super::Cache).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The message contains that of the cause, so there is no `source` that would repeat it.
    #[error("cache of {path}: {}", .error.below(.path))]
    Client {
        /// The path of the root.
        path: Arc<str>,
        /// What went wrong.
        error: client::Error,
    },
    /// The client has been closed, or the runtime behind it has ended; see
    /// [`Client::last_error`](crate::Client::last_error).
    #[error("cache of {path}: its client has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the root.
        path: Arc<str>,
    },
    /// An option is out of its range.
    #[error("cache of {path}: {why}")]
    InvalidOption {
        /// The path of the root.
        path: Arc<str>,
        /// The rejected value, and the allowed range.
        why: String,
    },
}

recipe_error! {
    kind {
        Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
    }
    /// Returns whether the client is closed for good. A cache belongs to no session, so nothing else can be lost.
    lost {
        Error::Client { .. } => false,
    }
}
