//! The error of a service discovery.

use std::sync::Arc;

use super::InvalidUriSpec;
use crate::client::{self, ErrorKind};
use crate::recipes::error::{from_recipe, recipe_error};

recipe_error! {
    /// An error of a [`ServiceDiscovery`](super::ServiceDiscovery), a [`Registration`](super::Registration) or a
    /// [`Service`](super::Service).
    "service at", closed: "it has been closed, or its client has been, or the runtime behind it has ended";
    {
        /// Another session has a node with this id. The node ends with that session, which is up to a session timeout
        /// later if its process has crashed. [`wait`](super::ServiceDiscoveryBuilder::wait) waits for that.
        #[error(
            "service at {path}: session {session:#x} has registered this id; choose another id, or wait for the end of \
             that session with ServiceDiscoveryBuilder::wait"
        )]
        Taken {
            /// The path of the node.
            path: Arc<str>,
            /// The session that has it.
            session: i64,
        },
    }
    kind {
        Error::Taken { .. } => ErrorKind::NodeExists,
    }
    retryable {
        // That session may end.
        Error::Taken { .. } => true,
    }
    /// Returns whether the registration or the service has ended permanently.
    lost {}
}

impl From<InvalidUriSpec> for Error {
    fn from(error: InvalidUriSpec) -> Self {
        Error::invalid("an instance", error.to_string())
    }
}

impl Error {
    /// Creates the error of a value that is not allowed.
    pub(super) fn invalid(path: &str, why: String) -> Self {
        Error::InvalidOption { path: path.into(), why }
    }

    from_recipe! {
        /// Converts an error of the node of a registration.
        node: persistent_node
    }

    from_recipe! {
        /// Converts an error of the copy of a service.
        cache: cache
    }
}
