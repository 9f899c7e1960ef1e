//! Puts that are in flight: each a node to be created, several of them a batch, and all of them counted.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use super::sequence::Ticket;
use crate::backend::{self, Multi, Reply};
use crate::client;
use crate::client::core::Core;
use crate::queue::error::Error;

/// So many failures are kept for the next flush; of the others it tells the number.
const MOST_FAILURES: usize = 16;

/// What the handles and the task of a producer share: how many puts are in flight, and which of them failed unnoticed.
#[derive(Debug)]
pub(super) struct InFlight {
    path: Arc<str>,
    count: watch::Sender<usize>,
    failures: Mutex<Failures>,
}

/// The failures that nobody awaited, since they were last told.
#[derive(Debug, Default)]
struct Failures {
    total: usize,
    first: Vec<Error>,
}

impl InFlight {
    pub(super) fn new(path: &Arc<str>) -> Arc<Self> {
        let (count, failures) = (watch::Sender::new(0), Mutex::default());
        Arc::new(InFlight { path: Arc::clone(path), count, failures })
    }

    pub(super) fn closed(&self) -> Error {
        Error::Closed { path: Arc::clone(&self.path) }
    }

    /// Waits until nothing is in flight.
    pub(super) async fn none(&self) {
        // The sender is here.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Keeps a failure for the next flush.
    pub(super) fn note_failure(&self, error: Error) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.total += 1;
        let doubt = |error: &Error| error.kind() == client::ErrorKind::OutcomeUnknown;
        if failures.first.len() < MOST_FAILURES {
            failures.first.push(error);
        } else if doubt(&error) && !failures.first.iter().any(doubt) {
            // That the outcome of one is unknown must not be lost among the others.
            failures.first[MOST_FAILURES - 1] = error;
        }
    }

    /// The failures since the last call, as one error.
    pub(super) fn take_failures(&self) -> Option<Error> {
        let failures = std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner));
        let Failures { total, first } = failures;
        (total > 0).then(|| Error::Unawaited { path: Arc::clone(&self.path), errors: first, total })
    }

    /// All handles are gone: the failures can be told to the client only.
    pub(super) fn report_failures(&self, core: &Core) {
        if let Some(error) = self.take_failures() {
            core.report(client::Error::new(error.kind(), error.to_string()));
        }
    }
}

/// One put in flight, counted until it is dropped.
#[derive(Debug)]
struct Counted(Arc<InFlight>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.send_modify(|count| *count -= 1);
    }
}

/// One node to be created.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) payload: Vec<u8>,
    done: oneshot::Sender<Result<(), Error>>,
    counted: Counted,
    /// Its part of the bytes that may be in flight.
    window: OwnedSemaphorePermit,
}

impl Put {
    /// The put, and what its outcome is told to.
    pub(super) fn new(
        payload: Vec<u8>,
        in_flight: &Arc<InFlight>,
        window: OwnedSemaphorePermit,
    ) -> (Self, oneshot::Receiver<Result<(), Error>>) {
        let (done, outcome) = oneshot::channel();
        in_flight.count.send_modify(|count| *count += 1);
        (Put { payload, done, counted: Counted(Arc::clone(in_flight)), window }, outcome)
    }

    /// Tells the caller; if nobody awaits it, a failure is kept for the next flush.
    pub(super) fn settle(self, outcome: Result<(), Error>) {
        let in_flight = Arc::clone(&self.counted.0);
        drop((self.counted, self.window));
        if let Err(Err(unnoticed)) = self.done.send(outcome) {
            in_flight.note_failure(unnoticed);
        }
    }
}

/// The puts of one transaction. Each copy of it that is sent has the same puts, number and id: whichever the ensemble carries
/// out, the producer's node tells what was put.
pub(super) struct Batch {
    pub(super) ticket: Ticket,
    pub(super) puts: Vec<Put>,
    /// A copy was not answered, and may still be carried out.
    pub(super) in_doubt: bool,
    /// The answer to the last copy; `None` if the next one is to be sent.
    pub(super) answer: Option<Reply<Multi>>,
}

impl Batch {
    /// What the last copy has come to.
    pub(super) async fn end(&mut self) -> End {
        let Some(answer) = &mut self.answer else { return End::NotSent };
        let end = End::of(answer.await);
        self.answer = None;
        self.in_doubt |= matches!(end, End::Unknown);
        end
    }

    /// Tells all of its puts the same.
    pub(super) fn settle(self, outcome: &Result<(), Error>) {
        for put in self.puts {
            put.settle(outcome.clone());
        }
    }
}

/// What is known of one copy of a transaction by its own answer.
#[derive(Debug)]
pub(super) enum End {
    /// It was carried out.
    Applied,
    /// The ensemble did not look at it; it may be sent again.
    NotSent,
    /// It was not carried out, because of this step.
    Refused { step: usize, error: backend::Error },
    /// It was not carried out, and never will be.
    Rejected(backend::Error),
    /// It may have been carried out, or may be later.
    Unknown,
}

impl End {
    fn of(outcome: Result<Multi, backend::Error>) -> Self {
        match outcome {
            Ok(Multi::Committed(_)) => End::Applied,
            Ok(Multi::Refused { index, error }) => End::Refused { step: index, error },
            Err(error) if error.leaves_outcome_unknown() => End::Unknown,
            Err(error) if error.is_passing() => End::NotSent,
            Err(error) => End::Rejected(error),
        }
    }
}
