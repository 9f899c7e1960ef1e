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
    /// The claim on an item was lost before it was settled, or the item was deleted or written without a claim.
    /// If the item is still there, it is delivered again.
    #[error("queue at {path}: the claim on {name} was lost")]
    Lost {
        /// The path of the queue.
        path: Arc<str>,
        /// The name of the item's node.
        name: String,
    },
    /// During the call the queue was seen to hold its maximum of items, and the time was over before there was room.
    /// Nothing was put.
    #[error("queue at {path}: there was no room in time; it may hold {limit} items")]
    Full {
        /// The path of the queue.
        path: Arc<str>,
        /// The maximum, as the producer was told.
        limit: usize,
    },
    /// Puts that were not awaited have failed, as a flush or a close tells.
    #[error("queue at {path}: {}", unawaited(errors, *total))]
    Unawaited {
        /// The path of the queue.
        path: Arc<str>,
        /// The failure of each, in the order in which they were noticed; of many the first 16.
        errors: Vec<Error>,
        /// How many there are.
        total: usize,
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
    /// What went wrong, to decide by. Of several failures that of the first; [`ErrorKind::OutcomeUnknown`] if one is of
    /// that kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Client { error, .. } => error.kind(),
            Error::Closed { .. } => ErrorKind::Closed,
            Error::Lost { .. } => ErrorKind::Fenced,
            Error::Full { .. } => ErrorKind::TimedOut,
            // That the outcome of one is unknown counts most.
            Error::Unawaited { errors, .. } => {
                let kinds = || errors.iter().map(Error::kind);
                let doubt = kinds().find(|kind| *kind == ErrorKind::OutcomeUnknown);
                doubt.or_else(|| kinds().next()).unwrap_or(ErrorKind::Other)
            }
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
            Error::Full { .. } => true,
            _ => false,
        }
    }

    /// Whether the claim, or the client, is gone for good.
    pub fn is_lost(&self) -> bool {
        match self {
            Error::Client { error, .. } => error.is_lost(),
            Error::Closed { .. } | Error::Lost { .. } => true,
            Error::Unawaited { errors, .. } => errors.iter().any(Error::is_lost),
            _ => false,
        }
    }

    pub(super) fn closed(path: &Arc<str>) -> Self {
        Error::Closed { path: Arc::clone(path) }
    }

    pub(super) fn client(path: &Arc<str>, error: client::Error) -> Self {
        if error.kind() == ErrorKind::Closed {
            return Error::closed(path);
        }
        Error::Client { path: Arc::clone(path), error }
    }
}

/// What has failed and how often, as in `3 puts that were not awaited have failed: <why> (2 times); <why>`.
fn unawaited(errors: &[Error], total: usize) -> String {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for error in errors {
        let text = match error {
            Error::Client { error, .. } => error.to_string(),
            error => error.to_string(),
        };
        match reasons.iter_mut().find(|(reason, _)| *reason == text) {
            Some((_, times)) => *times += 1,
            None => reasons.push((text, 1)),
        }
    }
    let each = reasons.into_iter().map(|(why, times)| if times == 1 { why } else { format!("{why} ({times} times)") });
    let mut each: Vec<String> = each.collect();
    if total > errors.len() {
        each.push(format!("and {} more", total - errors.len()));
    }
    let what = if total == 1 { "a put that was not awaited has" } else { "puts that were not awaited have" };
    let count = if total == 1 { String::new() } else { format!("{total} ") };
    format!("{count}{what} failed: {}", each.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_each_with_how_often() {
        let path: Arc<str> = "/q".into();
        let denied = Error::client(&path, client::Error::new(ErrorKind::NoAuth, "put into /q: no permission"));
        let doubt = Error::client(&path, client::Error::new(ErrorKind::OutcomeUnknown, "put into /q: not answered"));
        let unawaited =
            |errors: &[Error], total| Error::Unawaited { path: path.clone(), errors: errors.to_vec(), total };
        let one = unawaited(std::slice::from_ref(&denied), 1);
        assert_eq!(one.to_string(), "queue at /q: a put that was not awaited has failed: put into /q: no permission");
        assert_eq!((one.kind(), one.is_retryable(), one.is_lost()), (ErrorKind::NoAuth, false, false));
        let many = unawaited(&[denied.clone(), doubt, denied], 40);
        assert_eq!(
            many.to_string(),
            "queue at /q: 40 puts that were not awaited have failed: put into /q: no permission (2 times); put into /q: not \
             answered; and 37 more"
        );
        assert_eq!(many.kind(), ErrorKind::OutcomeUnknown);
        assert!(unawaited(&[Error::Closed { path: path.clone() }], 1).is_lost());
    }
}
