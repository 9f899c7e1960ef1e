//! The state that the handle and the task of a selector share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::RunningTerm;
use super::outcome::{Outcome, Subscribers};
use super::requeue::RequeuePolicy;
use super::state::{Phase, SelectorState};
use crate::contender::State;
use crate::util::mutex::Mutex;
use crate::util::panic::caught;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: Arc<str>,
    pub(super) id: String,
    pub(super) requeue: Option<RequeuePolicy>,
    pub(super) grace_period: Duration,
    pub(super) state: watch::Sender<SelectorState>,
    pub(super) outcomes: Subscribers,
    /// Whether it waits in the election, or must join it.
    wanted: watch::Sender<bool>,
    /// Whether and how it must end.
    closing: watch::Sender<Option<RunningTerm>>,
    /// Interrupts the running term. It is present until the term was interrupted.
    interrupt: Mutex<Option<oneshot::Sender<()>>>,
}

impl Shared {
    pub(super) fn new(path: Arc<str>, id: String, requeue: Option<RequeuePolicy>, grace_period: Duration) -> Self {
        Shared {
            path,
            id,
            requeue,
            grace_period,
            state: watch::Sender::new(SelectorState { phase: Phase::Contending(State::Entering), last_outcome: None }),
            outcomes: Subscribers::new(),
            wanted: watch::Sender::new(true),
            closing: watch::Sender::new(None),
            interrupt: Mutex::default(),
        }
    }

    pub(super) fn publish(&self, phase: Phase) {
        self.state.send_modify(|state| state.phase = phase);
    }

    pub(super) fn publish_outcome(&self, outcome: Outcome) {
        let mut last = Some(outcome.clone());
        self.state.send_modify(|state| std::mem::swap(&mut state.last_outcome, &mut last));
        // This may drop the error of the term before, and its destructor may panic. The selector must survive that.
        if let Err(message) = caught(move || drop(last)) {
            tracing::warn!(
                event = "error_panicked",
                path = &*self.path,
                id = self.id,
                panic = message,
                "the error of an earlier term panicked when dropped"
            );
        }
        self.outcomes.publish(&outcome);
    }

    /// Asks the selector to join once more. Returns whether that changes anything.
    pub(super) fn want(&self) -> bool {
        self.closing.borrow().is_none() && !self.wanted.send_replace(true)
    }

    /// Records that the request to join was used up, unless the selector always joins again.
    pub(super) fn used(&self) {
        self.wanted.send_replace(self.requeue.is_some());
    }

    pub(super) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// Resolves when the selector must join the election.
    pub(super) async fn wanted(&self) {
        let mut wanted = self.wanted.subscribe();
        // The sender is at hand.
        let _ = wanted.wait_for(|wanted| *wanted).await;
    }

    /// Asks the selector to end. The strictest mode counts.
    pub(super) fn close(&self, mode: RunningTerm) {
        self.closing.send_if_modified(|closing| {
            let stricter = closing.is_none_or(|before| before < mode);
            if stricter {
                *closing = Some(mode);
            }
            stricter
        });
    }

    /// Resolves when the selector must end at least as strictly as this.
    pub(super) async fn closing(&self, least: RunningTerm) {
        let mut closing = self.closing.subscribe();
        // The sender is at hand.
        let _ = closing.wait_for(|mode| mode.is_some_and(|mode| mode >= least)).await;
    }

    /// Begins a term. The receiver resolves when it is interrupted.
    pub(super) fn begin_term(&self) -> oneshot::Receiver<()> {
        let (interrupt, interrupted) = oneshot::channel();
        *self.interrupt.lock() = Some(interrupt);
        interrupted
    }

    pub(super) fn end_term(&self) {
        self.interrupt.lock().take();
    }

    /// Interrupts the running term. Returns false if there is none, or it was interrupted already.
    pub(super) fn interrupt(&self) -> bool {
        let interrupt = self.interrupt.lock().take();
        interrupt.is_some_and(|interrupt| interrupt.send(()).is_ok())
    }
}
