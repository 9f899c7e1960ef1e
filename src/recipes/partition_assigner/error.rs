//! What can go wrong with an assigner.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

recipe_error! {
    /// An error of a [`PartitionAssigner`](super::PartitionAssigner).
    "partition assigner at", closed: "the member has left, or the client has been closed";
    {
        /// Another library uses the path.
        #[error("partition assigner at {path}: kazoo's SetPartitioner uses this path ({path}/{node} exists); its \
                 members cannot hand over safely to others, so use another path")]
        ForeignPath {
            /// The base path of the assigner.
            path: Arc<str>,
            /// The node that shows it.
            node: String,
        },
        /// A node that operators write does not contain what it should.
        #[error("partition assigner at {path}: {why}")]
        InvalidNode {
            /// The base path of the assigner.
            path: Arc<str>,
            /// The node, the bytes seen, and what is allowed.
            why: String,
        },
    }
    kind {
        Error::ForeignPath { .. } => ErrorKind::Other,
        Error::InvalidNode { .. } => ErrorKind::Other,
    }
    /// Returns whether the member has left or its client is closed, for good.
    lost {}
}

impl Error {
    pub(super) fn closed(path: &str) -> Self {
        Error::Closed { path: path.into() }
    }

    pub(super) fn invalid(path: &str, why: String) -> Self {
        Error::InvalidOption { path: path.into(), why }
    }
}
