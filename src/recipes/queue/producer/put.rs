//! One put: the node that the task is to create, and the future that the caller awaits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::failures::Failures;
use crate::client::{self, ErrorKind};
use crate::layout::queue::Key;
use crate::queue::error::Error;

/// The error of a put that failed, or may have failed.
pub(super) fn failed(path: &Arc<str>, kind: ErrorKind, why: &str) -> Error {
    Error::client(path, client::Error::at(kind, "put into", path, why))
}

/// What a node is to be: the data, and the key in its name.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) key: Key,
    pub(super) payload: Vec<u8>,
}

/// A node to be created.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) node: Node,
    done: oneshot::Sender<Result<(), Error>>,
    failures: Arc<Failures>,
    /// Its share of the bytes that may be in flight.
    window: OwnedSemaphorePermit,
}

impl Put {
    pub(super) fn new(node: Node, window: OwnedSemaphorePermit, failures: &Arc<Failures>) -> (Self, Enqueued) {
        let (done, outcome) = oneshot::channel();
        let put = Put { node, done, failures: Arc::clone(failures), window };
        (put, Enqueued { outcome, failures: Arc::clone(failures) })
    }

    /// Sends the outcome to the caller. If the caller does not await it, keeps a failure for the next flush.
    pub(super) fn settle(self, outcome: Result<(), Error>) {
        drop(self.window);
        if let Err(Err(unnoticed)) = self.done.send(outcome) {
            self.failures.note(unnoticed);
        }
    }
}

/// An enqueued item: a future that resolves to the same result as [`Producer::put`](super::Producer::put). The item is
/// put even if this future is dropped; then [`Producer::flush`](super::Producer::flush) reports a failure.
#[derive(Debug)]
#[must_use = "it resolves to whether the item was put; or use flush()"]
pub struct Enqueued {
    outcome: oneshot::Receiver<Result<(), Error>>,
    failures: Arc<Failures>,
}

impl Future for Enqueued {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        // The task is missing only if its runtime has ended.
        Poll::Ready(outcome.unwrap_or_else(|_| Err(Error::closed(&self.failures.path))))
    }
}

impl Drop for Enqueued {
    fn drop(&mut self) {
        // From now on the task records a failure itself. One that it has sent already is recorded here.
        self.outcome.close();
        if let Ok(Err(unnoticed)) = self.outcome.try_recv() {
            self.failures.note(unnoticed);
        }
    }
}
