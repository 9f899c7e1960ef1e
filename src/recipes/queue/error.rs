//! The error of a queue.

use std::sync::Arc;

use crate::client::{self, ErrorKind};
use crate::recipes::error::recipe_error;

recipe_error! {
    /// An error of a [`DistributedQueue`](super::DistributedQueue), its producers, consumers and deliveries.
    "queue at", closed: "this producer or consumer, or its client, has been closed, or the runtime behind it has ended";
    {
        /// The claim on an item was lost before the item was settled, or a client without a claim deleted or wrote the
        /// item. If the item still exists, it is redelivered.
        #[error("queue at {path}: the claim on {name} was lost")]
        Lost {
            /// The path of the queue.
            path: Arc<str>,
            /// The name of the item's node.
            name: String,
        },
        /// The queue held its maximum number of items, and no room was free before the timeout. Nothing was put.
        #[error("queue at {path}: no room before the timeout; the limit of items is {limit}")]
        Full {
            /// The path of the queue.
            path: Arc<str>,
            /// The maximum that the producer was configured with.
            limit: usize,
        },
        /// Puts that were not awaited have failed. Returned by a flush or a close.
        #[error("queue at {path}: {}", unawaited(errors, *total))]
        Unawaited {
            /// The path of the queue.
            path: Arc<str>,
            /// The failures in the order in which they were recorded; at most the first 16.
            errors: Vec<Error>,
            /// The number of failures.
            total: usize,
        },
        /// The items of one put are larger than a node may be. Nothing was put.
        #[error(
            "queue at {path}: a node of {bytes} bytes; at most {limit} are allowed (the servers' jute.maxbuffer; see \
             ClientBuilder::max_request_bytes)"
        )]
        TooLarge {
            /// The path of the queue.
            path: Arc<str>,
            /// The size that the node would have.
            bytes: usize,
            /// The largest size that is allowed.
            limit: usize,
        },
        /// The serializer refused the item. Nothing was put.
        #[error("queue at {path}: the item cannot be serialized: {why}")]
        Unserializable {
            /// The path of the queue.
            path: Arc<str>,
            /// The message of the serializer.
            why: String,
        },
        /// The item that `peek` read cannot be decoded. A consumer makes it a dead letter.
        #[error("queue at {path}: {name} cannot be decoded: {why}")]
        Undecodable {
            /// The path of the queue.
            path: Arc<str>,
            /// The name of the item's node.
            name: String,
            /// Why it cannot be decoded.
            why: String,
        },
    }
    kind {
        Error::Lost { .. } => ErrorKind::Fenced,
        Error::Full { .. } => ErrorKind::TimedOut,
        Error::Unawaited { errors, .. } => kind_of_all(errors),
        Error::TooLarge { .. } | Error::Unserializable { .. } => ErrorKind::InvalidArgument,
        Error::Undecodable { .. } => ErrorKind::Other,
    }
    retryable {
        // A second flush would succeed, but the items are not in the queue.
        Error::Unawaited { .. } => false,
    }
    /// Returns whether the claim was lost, or the producer, the consumer or the client is closed.
    lost {
        Error::Unawaited { errors, .. } => errors.iter().any(Error::is_lost),
    }
}

impl Error {
    pub(super) fn closed(path: &Arc<str>) -> Self {
        Error::Closed { path: Arc::clone(path) }
    }
}

/// Returns the kind of the first failure, or [`ErrorKind::OutcomeUnknown`] if one of them is of that kind, which is the
/// most important one.
fn kind_of_all(errors: &[Error]) -> ErrorKind {
    let kinds = || errors.iter().map(Error::kind);
    let doubt = kinds().find(|kind| *kind == ErrorKind::OutcomeUnknown);
    doubt.or_else(|| kinds().next()).unwrap_or(ErrorKind::Other)
}

/// Lists each failure and how often it occurred, as in
/// `3 puts that were not awaited have failed: <why> (2 times); <why>`.
fn unawaited(errors: &[Error], total: usize) -> String {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for error in errors {
        let text = match error {
            Error::Client { path, error } => error.below(path).into_owned(),
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
    fn each_failure_is_reported_with_its_number_of_occurrences() {
        let path: Arc<str> = "/q".into();
        let denied = Error::client(&path, client::Error::at(ErrorKind::NoAuth, "put into", "/q", "no permission"));
        let doubt =
            Error::client(&path, client::Error::at(ErrorKind::OutcomeUnknown, "put into", "/q", "not answered"));
        let unawaited =
            |errors: &[Error], total| Error::Unawaited { path: path.clone(), errors: errors.to_vec(), total };
        let one = unawaited(std::slice::from_ref(&denied), 1);
        assert_eq!(one.to_string(), "queue at /q: a put that was not awaited has failed: put: no permission");
        assert_eq!((one.kind(), one.is_retryable(), one.is_lost()), (ErrorKind::NoAuth, false, false));
        let many = unawaited(&[denied.clone(), doubt, denied], 40);
        assert_eq!(
            many.to_string(),
            "queue at /q: 40 puts that were not awaited have failed: put: no permission (2 times); \
             put: not answered; and 37 more"
        );
        assert_eq!(many.kind(), ErrorKind::OutcomeUnknown);
        assert!(unawaited(&[Error::Closed { path: path.clone() }], 1).is_lost());
    }
}
