//! The errors of a shared value.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::{from_recipe, recipe_error};
use crate::util::path::quoted_bytes;

recipe_error! {
    /// An error of a [`SharedValue`](super::SharedValue).
    "shared value at", closed: "its client has been closed, or the runtime behind it has ended";
    {
        /// There is no node: another client has deleted it, or it was never created, as no seed was given. Nothing was
        /// written. A value that is started with a [seed](super::SharedValueBuilder::seed) creates it.
        #[error("shared value at {path}: there is no node; start a value with a seed to create it")]
        Missing {
            /// The path of the value.
            path: Arc<str>,
        },
        /// The node was deleted and created again since the value was read, and the new one has the version of the old
        /// one. The value was written over what the new node had. [`get`](super::SharedValue::get) returns it.
        #[error(
            "shared value at {path}: the node was deleted and created again since the value was read; the new node had \
             the same version, and was written; read it with get()"
        )]
        Replaced {
            /// The path of the value.
            path: Arc<str>,
        },
        /// The answer to a conditional write was lost, and the node has the new value, at the version that the write
        /// would have given it. Either the write was carried out, or another client wrote the same value over the same
        /// version: the servers do not report which. If no other client writes this value, the write was carried out.
        #[error(
            "shared value at {path}: the answer was lost; version {version} has the new value, written by this call or \
             by another client that wrote the same; if no other client writes this value, this call wrote it"
        )]
        SameValue {
            /// The path of the value.
            path: Arc<str>,
            /// The version of the node.
            version: i32,
        },
        /// The data of the node cannot be decoded. [`set`](super::SharedValue::set) replaces it.
        #[error(
            "shared value at {path}: version {version} of the node, {}, cannot be decoded: {why}; set() replaces it",
            quoted_bytes(.bytes)
        )]
        Undecodable {
            /// The path of the value.
            path: Arc<str>,
            /// The version of the node.
            version: i32,
            /// The data of the node.
            bytes: Vec<u8>,
            /// The message of the serializer.
            why: String,
        },
        /// The serializer refused the new value. Nothing was written.
        #[error("shared value at {path}: the value cannot be serialized: {why}")]
        Unserializable {
            /// The path of the value.
            path: Arc<str>,
            /// The message of the serializer.
            why: String,
        },
        /// The version of the node is -1, which ZooKeeper takes to mean any version, so no write can be conditional on
        /// it. Nothing was written. One [`set`](super::SharedValue::set) advances it. A node reaches -1 after 2^32
        /// writes.
        #[doc(alias = "IllegalTrySetVersionException")]
        #[error(
            "shared value at {path}: the version of the node is -1, which means any version; one set() advances it"
        )]
        VersionOverflow {
            /// The path of the value.
            path: Arc<str>,
        },
    }
    kind {
        Error::Missing { .. } => ErrorKind::NoNode,
        Error::Replaced { .. } | Error::Undecodable { .. } | Error::VersionOverflow { .. } => ErrorKind::Other,
        Error::SameValue { .. } => ErrorKind::OutcomeUnknown,
        Error::Unserializable { .. } => ErrorKind::InvalidArgument,
    }
    /// Returns whether the client is closed permanently. A value belongs to no session, so nothing else can be lost.
    lost {
        Error::Client { .. } => false,
    }
}

impl Error {
    from_recipe! {
        /// Converts an error of the copy of the node.
        cache: cache
    }
}
