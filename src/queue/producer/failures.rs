//! Failures of puts that were not awaited, kept for the next flush.

use std::sync::{Arc, Mutex, PoisonError};

use crate::client::ErrorKind;
use crate::queue::error::Error;

/// So many are kept; of the others the flush tells the number.
const MOST_FAILURES: usize = 16;

/// What the handles, the task and each put of a producer share.
#[derive(Debug)]
pub(super) struct Failures {
    /// Of the queue.
    pub(super) path: Arc<str>,
    untold: Mutex<Untold>,
}

/// The failures since the last flush.
#[derive(Debug, Default)]
struct Untold {
    total: usize,
    first: Vec<Error>,
}

impl Failures {
    pub(super) fn new(path: &Arc<str>) -> Arc<Self> {
        Arc::new(Failures { path: Arc::clone(path), untold: Mutex::default() })
    }

    pub(super) fn note(&self, error: Error) {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.total += 1;
        let doubt = |error: &Error| error.kind() == ErrorKind::OutcomeUnknown;
        if untold.first.len() < MOST_FAILURES {
            untold.first.push(error);
        } else if doubt(&error) && !untold.first.iter().any(doubt) {
            // That the outcome of one is unknown must not be lost among the others.
            untold.first[MOST_FAILURES - 1] = error;
        }
    }

    /// All of them as one error, which is told once.
    pub(super) fn take(&self) -> Option<Error> {
        let untold = std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        let Untold { total, first } = untold;
        (total > 0).then(|| Error::Unawaited { path: Arc::clone(&self.path), errors: first, total })
    }
}
