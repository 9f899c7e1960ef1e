//! The terms of one selector as its listener saw them, and as its outcomes report them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use zookeeper_recipes::leader_selector::{Outcome, TermEnd};

/// How the listener's future ended, according to the listener.
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
    /// When it was interrupted.
    interrupted: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    terms: Vec<Term>,
    told: Vec<Outcome>,
    /// From now on any term may be interrupted, as the selector is closed in this way or dropped.
    closing: bool,
    /// There will be no more outcomes.
    over: bool,
}

/// The record of one selector. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<State>>);

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many terms have begun.
    pub(super) fn terms(&self) -> usize {
        self.state().terms.len()
    }

    /// Returns whether the listener is running.
    pub(super) fn is_running(&self) -> bool {
        self.state().terms.last().is_some_and(|last| last.ending == Ending::Running)
    }

    /// Notes that the listener is called. Returns false if it is already running.
    pub(super) fn begin(&self, token: i64) -> bool {
        let alone = !self.is_running();
        let mut state = self.state();
        state.terms.push(Term { token, ending: Ending::Running, interrupted: None });
        alone
    }

    /// Notes how the listener's future ended, unless that is known already.
    pub(super) fn end(&self, token: i64, ending: Ending) {
        let mut state = self.state();
        let running = state.terms.iter_mut().rev().find(|term| term.token == token && term.ending == Ending::Running);
        if let Some(term) = running {
            term.ending = ending;
        }
    }

    /// Notes that the running term was interrupted. Returns false if there is none.
    pub(super) fn interrupt(&self) -> bool {
        let mut state = self.state();
        let running = state.terms.last_mut().filter(|term| term.ending == Ending::Running);
        running.map(|term| term.interrupted = Some(Instant::now())).is_some()
    }

    /// Notes that any term may be interrupted from now on.
    pub(super) fn close(&self) {
        self.state().closing = true;
    }

    /// Returns when this term was interrupted, if it is the last one.
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

    /// Compares the terms with their outcomes: each is reported once, in order, and as it was. A term that was over
    /// before the listener could be called may be reported, too.
    pub(super) fn check(&self) -> Result<(), String> {
        let state = self.state();
        if let Some(two) = state.told.windows(2).find(|two| two[0].fencing_token >= two[1].fencing_token) {
            return Err(format!("the second of these outcomes is repeated or out of order: {two:?}"));
        }
        let mut terms = state.terms.iter().peekable();
        for outcome in &state.told {
            match terms.next_if(|term| term.token == outcome.fencing_token) {
                Some(term) => fits(term, &outcome.end, state.closing)?,
                None if matches!(outcome.end, TermEnd::Lost | TermEnd::Interrupted) => {}
                None => return Err(format!("there was no such term, or it was reported before: {outcome:?}")),
            }
        }
        match terms.next() {
            Some(term) => Err(format!("the end of this term was not reported: {term:?}")),
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
    if fits { Ok(()) } else { Err(format!("the reported end {end:?} does not fit this term: {term:?}")) }
}
