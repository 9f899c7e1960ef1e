//! The errors of a persistent node.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

/// An error of a [`PersistentNode`](super::PersistentNode).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains that of the cause, so `source` does not repeat it.
    #[error("persistent node at {path}: {}", .error.below(.path))]
    Client {
        /// The path that the node was asked for with.
        path: Arc<str>,
        /// The cause.
        error: client::Error,
    },
    /// The persistent node or its client has been closed, or the runtime behind it has ended.
    /// [`Client::last_error`](crate::Client::last_error) may tell why.
    #[error("persistent node at {path}: it, or its client, has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path that the node was asked for with.
        path: Arc<str>,
    },
    /// An option is out of its range.
    #[error("persistent node at {path}: {why}")]
    InvalidOption {
        /// The path that the node was asked for with.
        path: Arc<str>,
        /// The value, and what is allowed.
        why: String,
    },
}

recipe_error! {
    kind {
        Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
    }
    /// Returns whether the persistent node has ended for good.
    lost {}
}
