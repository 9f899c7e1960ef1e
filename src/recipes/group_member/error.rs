//! The error of a group member.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;
use crate::util::path::quoted_bytes;
use crate::{cache, persistent_node};

recipe_error! {
    /// An error of a [`GroupMember`](super::GroupMember).
    "group at", closed: "the member has left, or its client has been closed, or the runtime behind it has ended";
    {
        /// Another session has a node with this id. The node ends with that session, which is up to a session timeout
        /// later if its process has crashed. [`wait`](super::GroupMemberBuilder::wait) waits for that.
        #[error(
            "group at {path}: session {session:#x} has joined as {id:?}, with the data {}; choose another id, or wait \
             for the end of that session with GroupMemberBuilder::wait",
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
    }
    kind {
        Error::Taken { .. } => ErrorKind::NodeExists,
    }
    retryable {
        // That session may end.
        Error::Taken { .. } => true,
    }
    /// Returns whether the member has ended permanently.
    lost {}
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
