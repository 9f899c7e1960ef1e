//! The error of a group member.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;
use crate::util::path::quoted_bytes;
use crate::{cache, persistent_node};

/// An error of a [`GroupMember`](super::GroupMember).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The message contains that of the cause, so there is no `source` that would repeat it.
    #[error("group at {path}: {}", .error.below(.path))]
    Client {
        /// The path of the group.
        path: Arc<str>,
        /// What went wrong.
        error: client::Error,
    },
    /// The member has left, or its client has been closed, or the runtime behind it has ended; see
    /// [`Client::last_error`](crate::Client::last_error).
    #[error("group at {path}: the member has left, or its client has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the group.
        path: Arc<str>,
    },
    /// Another session has a node of this id. It ends with that session; if its process has crashed, that is up to a
    /// session timeout later. [`wait`](super::GroupMemberBuilder::wait) waits for it.
    #[error(
        "group at {path}: session {session:#x} has joined as {id:?}, with the data {}; choose another id, or wait for \
         the end of that session with GroupMemberBuilder::wait",
        quoted_bytes(.data)
    )]
    Taken {
        /// The path of the group.
        path: Arc<str>,
        /// The id.
        id: String,
        /// The session that has it.
        session: i64,
        /// The data of its member.
        data: Vec<u8>,
    },
    /// An option is out of its range.
    #[error("group at {path}: {why}")]
    InvalidOption {
        /// The path of the group.
        path: Arc<str>,
        /// The rejected value, and what is allowed.
        why: String,
    },
}

impl Error {
    /// Converts an error of the member's node.
    pub(super) fn node(path: &Arc<str>, error: persistent_node::Error) -> Self {
        let path = Arc::clone(path);
        match error {
            persistent_node::Error::Client { error, .. } => Error::Client { path, error },
            persistent_node::Error::Closed { .. } => Error::Closed { path },
            persistent_node::Error::InvalidOption { why, .. } => Error::InvalidOption { path, why },
        }
    }

    /// Converts an error of the copy of the group.
    pub(super) fn cache(path: &Arc<str>, error: cache::Error) -> Self {
        let path = Arc::clone(path);
        match error {
            cache::Error::Client { error, .. } => Error::Client { path, error },
            cache::Error::Closed { .. } => Error::Closed { path },
            cache::Error::InvalidOption { why, .. } => Error::InvalidOption { path, why },
        }
    }
}

recipe_error! {
    kind {
        Error::Taken { .. } => ErrorKind::NodeExists,
        Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
    }
    retryable {
        // That session may end.
        Error::Taken { .. } => true,
    }
    /// Returns whether the member has ended for good.
    lost {}
}
