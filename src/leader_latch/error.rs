//! What can go wrong with a latch.

use std::sync::Arc;

use crate::client;

/// An error of a [`LeaderLatch`](super::LeaderLatch).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ensemble, or the way to it, is in the way. Whether it passes by itself is in the source.
    #[error("leader latch at {path}: {source}")]
    Client {
        /// The path of the election.
        path: Arc<str>,
        /// What went wrong.
        source: client::Error,
    },
    /// The latch, or its client, has been closed. Start another one.
    #[error("leader latch at {path}: it has been closed")]
    Closed {
        /// The path of the election.
        path: Arc<str>,
    },
    /// The id does not fit.
    #[error("leader latch at {path}: an id of {bytes} bytes; at most {max} are allowed")]
    InvalidId {
        /// The path of the election.
        path: Arc<str>,
        /// How long the id is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
}

impl Error {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Client { source, .. } if source.is_retryable())
    }

    pub(super) fn client(path: &str, source: client::Error) -> Self {
        if source.kind() == client::ErrorKind::Closed {
            return Error::Closed { path: path.into() };
        }
        Error::Client {
            path: path.into(),
            source,
        }
    }
}
