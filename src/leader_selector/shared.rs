//! What the handle and the task of a selector share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::CloseMode;
use super::builder::RequeuePolicy;
use super::error::Error;
use super::outcome::{Outcome, Subscribers};
use super::state::{Phase, SelectorState};
use crate::client::listener::caught;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: Arc<str>,
    pub(super) id: String,
    pub(super) requeue: Option<RequeuePolicy>,
    pub(super) grace_period: Duration,
    pub(super) state: watch::Sender<SelectorState>,
    pub(super) outcomes: Subscribers,
    /// Whether it stands in line, or is to.
    wanted: watch::Sender<bool>,
    /// Whether and how it is to end.
    closing: watch::Sender<Option<CloseMode>>,
    /// Interrupts the running term; there is one as long as that was not done.
    interrupt: Mutex<Option<oneshot::Sender<()>>>,
    /// Why the node could not be deleted when the line was left last.
    left: Mutex<Option<Error>>,
}

impl Shared {
    pub(super) fn new(path: Arc<str>, id: String, requeue: Option<RequeuePolicy>, grace_period: Duration) -> Self {
        Shared {
            path,
            id,
            requeue,
            grace_period,
            state: watch::Sender::new(SelectorState { phase: Phase::Entering, last_outcome: None }),
            outcomes: Subscribers::new(),
            wanted: watch::Sender::new(true),
            closing: watch::Sender::new(None),
            interrupt: Mutex::default(),
            left: Mutex::default(),
        }
    }

    pub(super) fn publish(&self, phase: Phase) {
        self.state.send_modify(|state| state.phase = phase);
    }

    pub(super) fn publish_outcome(&self, outcome: Outcome) {
        let mut last = Some(outcome.clone());
        self.state.send_modify(|state| std::mem::swap(&mut state.last_outcome, &mut last));
        // The error of the term before may go with this, and its destructor may panic: that is not the selector's end.
        if let Err(message) = caught(move || drop(last)) {
            tracing::warn!(
                path = &*self.path,
                id = self.id,
                message,
                "the error of an earlier term panicked when dropped"
            );
        }
        self.outcomes.tell(&outcome);
    }

    /// Stands in line once more; whether that is news.
    pub(super) fn want(&self) -> bool {
        self.closing.borrow().is_none() && !self.wanted.send_replace(true)
    }

    /// The place in line is used up, unless it is always renewed.
    pub(super) fn used(&self) {
        self.wanted.send_replace(self.requeue.is_some());
    }

    pub(super) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// Resolves when it is to stand in line.
    pub(super) async fn wanted(&self) {
        let mut wanted = self.wanted.subscribe();
        // The sender is at hand.
        let _ = wanted.wait_for(|wanted| *wanted).await;
    }

    /// Has the selector end; the strictest mode counts.
    pub(super) fn close(&self, mode: CloseMode) {
        self.closing.send_if_modified(|closing| {
            let stricter = closing.is_none_or(|before| before < mode);
            if stricter {
                *closing = Some(mode);
            }
            stricter
        });
    }

    /// Resolves when the selector is to end at least so strictly.
    pub(super) async fn closing(&self, least: CloseMode) {
        let mut closing = self.closing.subscribe();
        // The sender is at hand.
        let _ = closing.wait_for(|mode| mode.is_some_and(|mode| mode >= least)).await;
    }

    pub(super) fn set_left(&self, error: Option<Error>) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// How leaving the line went the last time.
    pub(super) fn left(&self) -> Result<(), Error> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    /// A term begins; resolves with its interruption.
    pub(super) fn begin_term(&self) -> oneshot::Receiver<()> {
        let (interrupt, interrupted) = oneshot::channel();
        *self.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = Some(interrupt);
        interrupted
    }

    pub(super) fn end_term(&self) {
        self.interrupt.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Interrupts the running term; whether there was one that was not interrupted yet.
    pub(super) fn interrupt(&self) -> bool {
        let interrupt = self.interrupt.lock().unwrap_or_else(PoisonError::into_inner).take();
        interrupt.is_some_and(|interrupt| interrupt.send(()).is_ok())
    }
}
