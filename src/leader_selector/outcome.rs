//! How terms end, and who is told.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use tokio::sync::mpsc;

use super::error::Error;

/// The end of a term.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// The fencing token of the term.
    pub fencing_token: i64,
    /// How it ended.
    pub end: TermEnd,
    /// The node could not be deleted: nobody else leads until the server allows it, which is tried again and again, or the
    /// session ends.
    pub release_error: Option<Error>,
}

/// How a term ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TermEnd {
    /// The listener has returned without an error while it led.
    Returned,
    /// The listener has returned an error.
    Failed(Arc<dyn std::error::Error + Send + Sync>),
    /// The listener has panicked, with this message.
    Panicked(String),
    /// The leadership was lost before the listener had returned.
    Lost,
    /// The leadership was interrupted before the listener had returned.
    Interrupted,
}

impl TermEnd {
    /// Whether the listener failed, by an error or a panic.
    pub fn is_failure(&self) -> bool {
        matches!(self, TermEnd::Failed(_) | TermEnd::Panicked(_))
    }
}

impl fmt::Display for TermEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TermEnd::Returned => f.write_str("the listener returned"),
            TermEnd::Failed(error) => write!(f, "the listener failed: {error}"),
            TermEnd::Panicked(message) => write!(f, "the listener panicked: {message}"),
            TermEnd::Lost => f.write_str("the leadership was lost"),
            TermEnd::Interrupted => f.write_str("the leadership was interrupted"),
        }
    }
}

/// The ends of a selector's terms, from the moment of the call on, with none left out: read it, or drop it, as it keeps what
/// was not read. Ends when the selector is closed.
#[derive(Debug)]
pub struct Outcomes {
    outcomes: mpsc::UnboundedReceiver<Outcome>,
}

impl Stream for Outcomes {
    type Item = Outcome;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        self.outcomes.poll_recv(cx)
    }
}

/// Those who are told.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    /// None: there will be no more outcomes.
    senders: Mutex<Option<Vec<mpsc::UnboundedSender<Outcome>>>>,
}

impl Subscribers {
    pub(super) fn new() -> Self {
        Subscribers { senders: Mutex::new(Some(Vec::new())) }
    }

    pub(super) fn subscribe(&self) -> Outcomes {
        let (sender, outcomes) = mpsc::unbounded_channel();
        if let Some(senders) = &mut *self.senders.lock().unwrap_or_else(PoisonError::into_inner) {
            senders.push(sender);
        }
        Outcomes { outcomes }
    }

    pub(super) fn tell(&self, outcome: &Outcome) {
        if let Some(senders) = &mut *self.senders.lock().unwrap_or_else(PoisonError::into_inner) {
            senders.retain(|sender| sender.send(outcome.clone()).is_ok());
        }
    }

    pub(super) fn end(&self) {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
