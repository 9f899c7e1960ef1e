//! The terms of one selector as its listener saw them, and what its outcomes tell of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use zookeeper_recipes::leader_selector::{Outcome, TermEnd};

/// How the listener's future ended, as the listener knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// It runs.
    Running,
    Returned,
    Failed(String),
    Panicked(String),
    /// It was dropped at an await.
    Dropped,
}

/// A term.
#[derive(Debug, Clone)]
struct Term {
    token: i64,
    ending: Ending,
    /// Since when it is to end.
    interrupted: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    terms: Vec<Term>,
    told: Vec<Outcome>,
    /// From here on any term may be interrupted, as the selector is closed so or dropped.
    closing: bool,
    /// There will be no more outcomes.
    over: bool,
}

/// The record of one selector. Clones write to the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<State>>);

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many terms have begun.
    pub(super) fn terms(&self) -> usize {
        self.state().terms.len()
    }

    /// Whether the listener is at work.
    pub(super) fn is_running(&self) -> bool {
        self.state().terms.last().is_some_and(|last| last.ending == Ending::Running)
    }

    /// The listener is called; false if it is at work already.
    pub(super) fn begin(&self, token: i64) -> bool {
        let alone = !self.is_running();
        let mut state = self.state();
        state.terms.push(Term { token, ending: Ending::Running, interrupted: None });
        alone
    }

    /// The listener's future ended, unless that is known already.
    pub(super) fn end(&self, token: i64, ending: Ending) {
        let mut state = self.state();
        let running = state.terms.iter_mut().rev().find(|term| term.token == token && term.ending == Ending::Running);
        if let Some(term) = running {
            term.ending = ending;
        }
    }

    /// The running term was interrupted; false if there is none.
    pub(super) fn interrupt(&self) -> bool {
        let mut state = self.state();
        let running = state.terms.last_mut().filter(|term| term.ending == Ending::Running);
        running.map(|term| term.interrupted = Some(Instant::now())).is_some()
    }

    /// From now on a term may be interrupted.
    pub(super) fn close(&self) {
        self.state().closing = true;
    }

    /// Since when the running term is to end, as it was interrupted.
    pub(super) fn interrupted(&self, token: i64) -> Option<Instant> {
        self.state().terms.last().filter(|term| term.token == token)?.interrupted
    }

    pub(super) fn told(&self, outcome: Outcome) {
        self.state().told.push(outcome);
    }

    pub(super) fn over(&self) {
        self.state().over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Compares the terms with their outcomes: each is told once, in order, and as it was. A term that was over before
    /// the listener could be called may be told as well.
    pub(super) fn check(&self) -> Result<(), String> {
        let state = self.state();
        if let Some(two) = state.told.windows(2).find(|two| two[0].fencing_token >= two[1].fencing_token) {
            return Err(format!("of these outcomes the second is told too much: {two:?}"));
        }
        let mut terms = state.terms.iter().peekable();
        for outcome in &state.told {
            match terms.next_if(|term| term.token == outcome.fencing_token) {
                Some(term) => fits(term, &outcome.end, state.closing)?,
                None if matches!(outcome.end, TermEnd::Lost | TermEnd::Interrupted) => {}
                None => return Err(format!("there was no such term, or it was told before: {outcome:?}")),
            }
        }
        match terms.next() {
            Some(term) => Err(format!("the end of this term was not told: {term:?}")),
            None => Ok(()),
        }
    }
}

fn fits(term: &Term, end: &TermEnd, closing: bool) -> Result<(), String> {
    let fits = match (end, &term.ending) {
        (TermEnd::Failed(error), Ending::Failed(text)) => error.to_string() == *text,
        (TermEnd::Panicked(message), Ending::Panicked(text)) => message == text,
        (TermEnd::Returned, Ending::Returned) => term.interrupted.is_none(),
        // The listener may return within the grace period.
        (TermEnd::Lost, Ending::Returned | Ending::Dropped) => term.interrupted.is_none(),
        (TermEnd::Interrupted, Ending::Returned | Ending::Dropped) => term.interrupted.is_some() || closing,
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!("this term is told to have ended otherwise, by {end:?}: {term:?}")) }
}
