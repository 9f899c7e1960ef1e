//! One put on its way: the node that the task is to create, and what the caller awaits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::failures::Failures;
use crate::client::{self, ErrorKind};
use crate::queue::error::Error;

/// Why a put has failed, or may have.
pub(super) fn failed(path: &Arc<str>, kind: ErrorKind, why: &str) -> Error {
    Error::client(path, client::Error::new(kind, format!("put into {path}: {why}")))
}

/// One node to be created.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) payload: Vec<u8>,
    done: oneshot::Sender<Result<(), Error>>,
    failures: Arc<Failures>,
    /// Its part of the bytes that may be in flight.
    window: OwnedSemaphorePermit,
}

impl Put {
    pub(super) fn new(payload: Vec<u8>, window: OwnedSemaphorePermit, failures: &Arc<Failures>) -> (Self, Enqueued) {
        let (done, outcome) = oneshot::channel();
        let put = Put { payload, done, failures: Arc::clone(failures), window };
        (put, Enqueued { outcome, failures: Arc::clone(failures) })
    }

    /// Tells the caller; if it is not awaited, a failure is kept for the next flush.
    pub(super) fn settle(self, outcome: Result<(), Error>) {
        drop(self.window);
        if let Err(Err(unnoticed)) = self.done.send(outcome) {
            self.failures.note(unnoticed);
        }
    }
}

/// An item that is on its way: a future of what comes of it, as [`Producer::put`](super::Producer::put) tells it. It is
/// put also if this is dropped; then [`Producer::flush`](super::Producer::flush) tells of a failure.
#[derive(Debug)]
#[must_use = "it tells whether the item was put; or use flush()"]
pub struct Enqueued {
    outcome: oneshot::Receiver<Result<(), Error>>,
    failures: Arc<Failures>,
}

impl Future for Enqueued {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        // The task is gone with its runtime only.
        Poll::Ready(outcome.unwrap_or_else(|_| Err(Error::closed(&self.failures.path))))
    }
}

impl Drop for Enqueued {
    fn drop(&mut self) {
        // From here on the task notes a failure itself; one that it has told already is noted here.
        self.outcome.close();
        if let Ok(Err(unnoticed)) = self.outcome.try_recv() {
            self.failures.note(unnoticed);
        }
    }
}
