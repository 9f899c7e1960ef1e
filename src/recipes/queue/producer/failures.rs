//! The failures of puts that were not awaited, kept for the next flush.

use std::sync::Arc;

use crate::client::ErrorKind;
use crate::queue::error::Error;
use crate::util::mutex::Mutex;

/// How many failures are kept. Of the others, the flush reports only the number.
const MOST_FAILURES: usize = 16;

/// The failures that the handles, the task and each put of a producer share.
#[derive(Debug)]
pub(super) struct Failures {
    /// The path of the queue.
    pub(super) path: Arc<str>,
    unreported: Mutex<Unreported>,
}

/// The failures since the last flush.
#[derive(Debug, Default)]
struct Unreported {
    total: usize,
    first: Vec<Error>,
}

impl Failures {
    pub(super) fn new(path: &Arc<str>) -> Arc<Self> {
        Arc::new(Failures { path: Arc::clone(path), unreported: Mutex::default() })
    }

    pub(super) fn note(&self, error: Error) {
        let mut unreported = self.unreported.lock();
        unreported.total += 1;
        let doubt = |error: &Error| error.kind() == ErrorKind::OutcomeUnknown;
        if unreported.first.len() < MOST_FAILURES {
            unreported.first.push(error);
        } else if doubt(&error) && !unreported.first.iter().any(doubt) {
            // An unknown outcome must not be lost among the others.
            unreported.first[MOST_FAILURES - 1] = error;
        }
    }

    /// Takes all failures as one error, so that they are reported once.
    pub(super) fn take(&self) -> Option<Error> {
        let unreported = std::mem::take(&mut *self.unreported.lock());
        let Unreported { total, first } = unreported;
        (total > 0).then(|| Error::Unawaited { path: Arc::clone(&self.path), errors: first, total })
    }
}
