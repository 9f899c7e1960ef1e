//! What can go wrong with a queue.

use std::sync::Arc;

use crate::client::{self, ErrorKind};

/// An error of a [`DistributedQueue`](super::DistributedQueue), its producers, consumers and deliveries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ensemble, or the way to it, is in the way.
    // The text holds that of the cause, so the cause is not told twice as a `source`.
    #[error("queue at {path}: {error}")]
    Client {
        /// The path of the queue.
        path: Arc<str>,
        /// What went wrong.
        error: client::Error,
    },
    /// The producer, the consumer or the client has been closed, or the runtime behind the client has ended: see
    /// [`Client::last_error`](crate::Client::last_error).
    #[error(
        "queue at {path}: this producer or consumer, or its client, has been closed, or the runtime behind it has ended"
    )]
    Closed {
        /// The path of the queue.
        path: Arc<str>,
    },
    /// The claim on an item was lost before it was settled, or the item was taken away or changed by somebody who had no claim.
    /// If the item is still there, it is delivered again.
    #[error("queue at {path}: the claim on {name} was lost")]
    Lost {
        /// The path of the queue.
        path: Arc<str>,
        /// The name of the item's node.
        name: String,
    },
    /// The queue was seen to hold its maximum of items, and the time was over before there was room. Nothing was put.
    #[error("queue at {path}: there was no room in time; it may hold {limit} items")]
    Full {
        /// The path of the queue.
        path: Arc<str>,
        /// The maximum, as the producer was told.
        limit: usize,
    },
    /// More items than can be listed in one answer: no consumer could see them. Nothing was put.
    #[error(
        "queue at {path}: it holds {items} items, and more than {limit} cannot be listed in one answer of the servers (their \
         jute.maxbuffer; see ClientBuilder::max_request_bytes)"
    )]
    ListingLimit {
        /// The path of the queue.
        path: Arc<str>,
        /// How many there are.
        items: usize,
        /// How many can be listed.
        limit: usize,
    },
    /// The items of one put are larger than a node can be. Nothing was put.
    #[error(
        "queue at {path}: a node of {bytes} bytes; at most {limit} are allowed (the servers' jute.maxbuffer; see \
         ClientBuilder::max_request_bytes)"
    )]
    TooLarge {
        /// The path of the queue.
        path: Arc<str>,
        /// How large it would be.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The serializer refused the item. Nothing was put.
    #[error("queue at {path}: the item cannot be serialized: {why}")]
    Unserializable {
        /// The path of the queue.
        path: Arc<str>,
        /// In the words of the serializer.
        why: String,
    },
    /// An item that was to be peeked at cannot be decoded. A consumer makes a dead letter of it.
    #[error("queue at {path}: {name} cannot be decoded: {why}")]
    Undecodable {
        /// The path of the queue.
        path: Arc<str>,
        /// The name of the item's node.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// An option is out of its range.
    #[error("queue at {path}: {why}")]
    InvalidOption {
        /// The path of the queue.
        path: Arc<str>,
        /// Which value, and what is allowed.
        why: String,
    },
}

impl Error {
    /// What went wrong, to decide by.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Client { error, .. } => error.kind(),
            Error::Closed { .. } => ErrorKind::Closed,
            Error::Lost { .. } => ErrorKind::Fenced,
            Error::Full { .. } => ErrorKind::TimedOut,
            Error::ListingLimit { .. } => ErrorKind::QuotaExceeded,
            Error::TooLarge { .. } | Error::Unserializable { .. } | Error::InvalidOption { .. } => {
                ErrorKind::InvalidArgument
            }
            Error::Undecodable { .. } => ErrorKind::Other,
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Client { error, .. } => error.is_retryable(),
            Error::Full { .. } | Error::ListingLimit { .. } => true,
            _ => false,
        }
    }

    /// Whether the claim, or the client, is gone for good.
    pub fn is_lost(&self) -> bool {
        match self {
            Error::Client { error, .. } => error.is_lost(),
            Error::Closed { .. } | Error::Lost { .. } => true,
            _ => false,
        }
    }

    pub(super) fn client(path: &Arc<str>, error: client::Error) -> Self {
        if error.kind() == ErrorKind::Closed {
            return Error::Closed { path: Arc::clone(path) };
        }
        Error::Client { path: Arc::clone(path), error }
    }
}
