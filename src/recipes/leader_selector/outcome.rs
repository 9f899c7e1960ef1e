//! The outcomes of terms, and their subscribers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use tokio::sync::mpsc;

use super::error::Error;
use crate::util::mutex::Mutex;

/// The outcome of a term.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Outcome {
    /// The fencing token of the term.
    pub fencing_token: i64,
    /// How it ended.
    pub end: TermEnd,
    /// Why the node could not be deleted, if it could not. The delete is retried until the server permits it or the
    /// session ends. Until then no other participant leads.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::util::text::serialize_opt"))]
    pub release_error: Option<Error>,
}

/// How a term ended.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum TermEnd {
    /// The listener returned without an error while it led.
    Returned,
    /// The listener returned an error.
    Failed(
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::util::text::serialize"))]
        Arc<dyn std::error::Error + Send + Sync>,
    ),
    /// The listener panicked, with this message.
    Panicked(String),
    /// The leadership was lost before the listener returned.
    Lost,
    /// The leadership was interrupted before the listener returned.
    Interrupted,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (fencing token {})", self.end, self.fencing_token)?;
        match &self.release_error {
            Some(error) => write!(f, "; the node could not be deleted: {error}"),
            None => Ok(()),
        }
    }
}

impl TermEnd {
    /// Returns its name, for the metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            TermEnd::Returned => "returned",
            TermEnd::Failed(_) => "failed",
            TermEnd::Panicked(_) => "panicked",
            TermEnd::Lost => "lost",
            TermEnd::Interrupted => "interrupted",
        }
    }

    /// Returns whether the listener failed, with an error or a panic.
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

/// A stream of the outcomes of a selector's terms, from [`outcomes`](super::LeaderSelector::outcomes) on. It leaves
/// none out and keeps those that were not read, so read it or drop it. It ends when the selector is closed.
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

/// The subscribers of the outcomes.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    /// `None` if no more outcomes follow.
    senders: Mutex<Option<Vec<mpsc::UnboundedSender<Outcome>>>>,
}

impl Subscribers {
    pub(super) fn new() -> Self {
        Subscribers { senders: Mutex::new(Some(Vec::new())) }
    }

    pub(super) fn subscribe(&self) -> Outcomes {
        let (sender, outcomes) = mpsc::unbounded_channel();
        if let Some(senders) = &mut *self.senders.lock() {
            senders.push(sender);
        }
        Outcomes { outcomes }
    }

    pub(super) fn publish(&self, outcome: &Outcome) {
        if let Some(senders) = &mut *self.senders.lock() {
            senders.retain(|sender| sender.send(outcome.clone()).is_ok());
        }
    }

    pub(super) fn end(&self) {
        self.senders.lock().take();
    }
}
