//! The error of a group member.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::{from_recipe, recipe_error};
use crate::util::path::quoted_bytes;

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
    from_recipe! {
        /// Converts an error of the member's node.
        node: persistent_node
    }

    from_recipe! {
        /// Converts an error of the copy of the group.
        cache: cache
    }
}
