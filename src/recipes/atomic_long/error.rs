//! The errors of an atomic number.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::mutex;
use crate::recipes::error::recipe_error;

/// An error of a [`DistributedAtomicLong`](super::DistributedAtomicLong).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request to ZooKeeper failed.
    // The text contains that of the cause, so `source` does not repeat it.
    #[error("atomic number at {path}: {}", .error.below(.path))]
    Client {
        /// The path of the number.
        path: Arc<str>,
        /// The cause.
        error: client::Error,
    },
    /// The client has been closed, or the runtime behind it has ended.
    /// [`Client::last_error`](crate::Client::last_error) may tell why.
    #[error("atomic number at {path}: its client has been closed, or the runtime behind it has ended")]
    Closed {
        /// The path of the number.
        path: Arc<str>,
    },
    /// The node holds one to seven bytes, so no number. Nothing was written. [`set`](super::DistributedAtomicLong::set)
    /// repairs it.
    #[error(
        "atomic number at {path}: the node holds {} bytes, and a number has eight: {bytes:?}; set() repairs it",
        .bytes.len()
    )]
    Corrupted {
        /// The path of the number.
        path: Arc<str>,
        /// The data of the node.
        bytes: Vec<u8>,
    },
    /// The sum does not fit into 64 bits. Nothing was written.
    #[error("atomic number at {path}: the sum of {before} and {delta} does not fit into 64 bits; nothing was written")]
    Overflow {
        /// The path of the number.
        path: Arc<str>,
        /// What the node holds.
        before: i64,
        /// What was to be added.
        delta: i64,
    },
    /// The version of the node is -1, which ZooKeeper takes for any version, so no write can be conditional on it.
    /// Nothing was written. One [`set`](super::DistributedAtomicLong::set) moves it on. A node gets there after 2^32
    /// writes.
    #[error("atomic number at {path}: the version of the node is -1, which stands for any; one set() moves it on")]
    VersionOverflow {
        /// The path of the number.
        path: Arc<str>,
    },
    /// The lock could not be acquired that was to be used under contention. Nothing was written.
    #[error("atomic number at {path}: {error}")]
    Lock {
        /// The path of the number.
        path: Arc<str>,
        /// The error of the lock.
        error: mutex::Error,
    },
    /// An option is out of its range.
    #[error("atomic number at {path}: {why}")]
    InvalidOption {
        /// The path of the number.
        path: Arc<str>,
        /// The value, and what is allowed.
        why: String,
    },
}

recipe_error! {
    kind {
        Error::Corrupted { .. } | Error::VersionOverflow { .. } => ErrorKind::Other,
        Error::Overflow { .. } | Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
        Error::Lock { error, .. } => error.kind(),
    }
    /// Returns whether the client is closed for good. A number belongs to no session, so nothing else can be lost.
    lost {
        Error::Client { .. } => false,
    }
}
