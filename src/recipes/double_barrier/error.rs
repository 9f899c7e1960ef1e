//! The error of a double barrier.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

recipe_error! {
    /// An error of a [`DoubleBarrier`](super::DoubleBarrier).
    "double barrier at", closed: "its client has been closed, or the runtime behind it has ended";
    {
        /// Another call on the same object is under way. An object is one member; create another object for another
        /// member.
        #[error(
            "double barrier at {path}: another call on this object is under way; an object is one member, so make \
             another one for another member"
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
        #[error("double barrier at {path}: another client deleted this member's node {node} while it was inside")]
        NodeDeleted {
            /// The path of the barrier.
            path: Arc<str>,
            /// The path of the node, as the server names it.
            node: Arc<str>,
        },
    }
    kind {
        Error::Busy { .. } | Error::AlreadyInside { .. } | Error::NotInside { .. } => ErrorKind::InvalidArgument,
        Error::NodeDeleted { .. } => ErrorKind::NoNode,
    }
    /// Returns whether the place in the round was lost, or the client is closed permanently. Then call `enter`, and not
    /// the same call again: whatever `leave` returns, the member is outside.
    lost {
        Error::NodeDeleted { .. } => true,
    }
}

impl Error {
    /// Returns the error for an earlier call's node whose deletion has not been confirmed yet.
    pub(super) fn left_behind(path: &str) -> Self {
        let why = "the node of an earlier call may still exist; it is deleted in the background";
        Error::client(path, client::Error::at(ErrorKind::OutcomeUnknown, "enter", path, why))
    }

    /// Returns the error for a call whose time was up before there was a connection.
    pub(super) fn no_server_asked(path: &str) -> Self {
        let why = "no server could be asked in time";
        Error::client(path, client::Error::at(ErrorKind::TimedOut, "enter", path, why))
    }
}
