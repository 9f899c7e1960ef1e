//! A transaction of a producer that is under way, and what became of it.

use std::fmt;

use super::pipe::Put;
use crate::backend::{self, Multi, Reply};

/// A transaction that was handed over.
pub(super) struct Flight {
    /// What it raises the producer's number to.
    pub(super) number: i32,
    pub(super) puts: Vec<Put>,
    pub(super) answer: Reply<Multi>,
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").field("number", &self.number).field("puts", &self.puts).finish_non_exhaustive()
    }
}

/// What is known of a transaction by its own answer.
#[derive(Debug)]
pub(super) enum Fate {
    Applied,
    /// It was not carried out, and may be sent again as it is.
    NotApplied,
    /// It was not carried out, because of this step.
    Refused {
        step: usize,
        error: backend::Error,
    },
    /// It was not carried out, and never will be.
    Rejected(backend::Error),
    /// It may have been carried out.
    Unknown,
}

impl Fate {
    pub(super) fn of(outcome: Result<Multi, backend::Error>) -> Self {
        match outcome {
            Ok(Multi::Committed(_)) => Fate::Applied,
            Ok(Multi::Refused { index, error }) => Fate::Refused { step: index, error },
            Err(error) if error.leaves_outcome_unknown() => Fate::Unknown,
            Err(error) if error.is_passing() => Fate::NotApplied,
            Err(error) => Fate::Rejected(error),
        }
    }
}
