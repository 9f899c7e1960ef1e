//! The errors of an atomic number.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::mutex;
use crate::recipes::error::recipe_error;

recipe_error! {
    /// An error of a [`DistributedAtomicLong`](super::DistributedAtomicLong).
    "atomic number at", closed: "its client has been closed, or the runtime behind it has ended";
    {
        /// The node has one to seven bytes, which is not a number. Nothing was written.
        /// [`set`](super::DistributedAtomicLong::set) repairs it.
        #[error(
            "atomic number at {path}: the node has {} bytes, and a number has eight: {bytes:?}; set() repairs it",
            .bytes.len()
        )]
        Corrupted {
            /// The path of the number.
            path: Arc<str>,
            /// The data of the node.
            bytes: Vec<u8>,
        },
        /// The sum does not fit into 64 bits. Nothing was written.
        #[error(
            "atomic number at {path}: the sum of {before} and {delta} does not fit into 64 bits; nothing was written"
        )]
        Overflow {
            /// The path of the number.
            path: Arc<str>,
            /// The number before the addition.
            before: i64,
            /// What was to be added.
            delta: i64,
        },
        /// The version of the node is -1, which ZooKeeper takes to mean any version, so no write can be conditional on
        /// it. Nothing was written. One [`set`](super::DistributedAtomicLong::set) advances it. A node reaches -1 after
        /// 2^32 writes.
        #[error(
            "atomic number at {path}: the version of the node is -1, which means any version; one set() advances it"
        )]
        VersionOverflow {
            /// The path of the number.
            path: Arc<str>,
        },
        /// The lock that is used under contention could not be acquired. Nothing was written.
        #[error("atomic number at {path}: {error}")]
        Lock {
            /// The path of the number.
            path: Arc<str>,
            /// The error of the lock.
            error: mutex::Error,
        },
    }
    kind {
        Error::Corrupted { .. } | Error::VersionOverflow { .. } => ErrorKind::Other,
        Error::Overflow { .. } => ErrorKind::InvalidArgument,
        Error::Lock { error, .. } => error.kind(),
    }
    /// Returns whether the client is closed permanently. A number belongs to no session, so nothing else can be lost.
    lost {
        Error::Client { .. } => false,
    }
}
