//! The events of a consumer, which no call returns.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt};
use tokio::sync::watch;

use super::error::Error;
use crate::client;
use crate::client::core::Core;
use crate::client::events::Broadcaster;

/// An event in a [`Consumer`](super::Consumer) that no call returns; see [`Consumer::events`](super::Consumer::events).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "event", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Event {
    /// This consumer made an item a [dead letter](super::DistributedQueue::dead_letters): by itself, in
    /// [`consume`](super::Consumer::consume), or because its caller requested it. Dead letters of other consumers are
    /// not reported, nor is one whose answer was lost with the session. So an alarm that must not miss a dead letter
    /// has to read them regularly as well.
    DeadLetter {
        /// The name that the item had.
        item: String,
        /// The number of its deliveries that failed, or ended with their sessions.
        attempts: u32,
        /// The reason why it became a dead letter.
        reason: String,
    },
    /// An item could not be settled, and no call returned the error: inside [`consume`](super::Consumer::consume),
    /// after the caller had dropped its future, or when the consumer made a dead letter by itself. If the item still
    /// exists, it is redelivered.
    Unsettled {
        /// The name of the item.
        item: String,
        /// The reason.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::util::text::serialize"))]
        error: Error,
    },
    /// The handler of an item was dropped before it had finished. The item is redelivered. This delivery does not count
    /// towards [`max_deliveries`](super::DistributedQueueBuilder::max_deliveries), unless its session has ended.
    Interrupted {
        /// The name of the item.
        item: String,
        /// The number of the delivery.
        attempt: u32,
        /// Whether the claim was lost, so that another consumer may have the item already. If not, the [grace
        /// period](super::DistributedQueueBuilder::grace_period) was over, or the future of
        /// [`consume`](super::Consumer::consume) was dropped.
        claim_lost: bool,
    },
    /// A node of the queue has a name that begins with `queue-` as those of items do, but that none of Curator's queues
    /// writes. The consumer ignores it. Reported once for each node.
    Skipped {
        /// The name of the node.
        node: String,
    },
    /// An item has a time that is more than ten years away, and waits for it: the producer may have written a wrong
    /// time, or Curator an id that looks like a time. [`remove`](super::DistributedQueue::remove) with the text between
    /// the vertical lines in its name removes it. Reported once for each item.
    FarAhead {
        /// The name of the item.
        item: String,
    },
    /// An operation failed, and is retried. [`Client::last_error`](crate::Client::last_error) keeps the error as well.
    Failed {
        /// The error.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::util::text::serialize"))]
        error: Error,
    },
    /// Events were not read in time and are lost.
    Missed {
        /// The number of lost events.
        events: u64,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::DeadLetter { item, attempts, reason } => {
                write!(f, "{item} is a dead letter now, failed deliveries: {attempts}: {reason}")
            }
            Event::Unsettled { item, error } => write!(f, "{item} could not be settled: {error}"),
            Event::Interrupted { item, attempt, claim_lost } => {
                let claim = if *claim_lost { ", and its claim is lost" } else { "" };
                write!(f, "the handler of {item} was dropped in delivery {attempt}{claim}")
            }
            Event::Skipped { node } => write!(f, "{node} is in no format of an item, and is ignored"),
            Event::FarAhead { item } => {
                write!(f, "{item} waits for a time more than ten years away; it may be an id that looks like a time")
            }
            Event::Failed { error } => write!(f, "failed, and is retried: {error}"),
            Event::Missed { events } => write!(f, "{events} events were not read in time and are lost"),
        }
    }
}

/// Publishes the events of one consumer.
#[derive(Debug, Clone)]
pub(super) struct Publisher {
    core: Arc<Core>,
    path: Arc<str>,
    events: Broadcaster<Event>,
    finished: Arc<watch::Sender<bool>>,
}

impl Publisher {
    pub(super) fn new(core: &Arc<Core>, path: &Arc<str>) -> Self {
        Publisher {
            core: Arc::clone(core),
            path: Arc::clone(path),
            events: Broadcaster::new(),
            finished: Arc::default(),
        }
    }

    pub(super) fn publish(&self, event: Event) {
        let path = &*self.path;
        match &event {
            Event::DeadLetter { item, attempts, reason } => {
                tracing::warn!(event = "dead_letter", path, item, attempts, reason, "an item is a dead letter now");
            }
            Event::Interrupted { item, attempt, claim_lost } => {
                tracing::warn!(event = "handler_interrupted", path, item, attempt, claim_lost, "a handler was dropped");
            }
            Event::Skipped { node } => {
                let item = node;
                tracing::warn!(event = "item_skipped", path, item, "a node in no format of an item is ignored");
            }
            Event::FarAhead { item } => {
                tracing::warn!(event = "item_far_ahead", path, item, "an item waits for a time years away");
            }
            Event::Unsettled { item, error } => tracing::warn!(
                event = "item_unsettled",
                path,
                item,
                %error,
                kind = ?error.kind(),
                "an item could not be settled"
            ),
            Event::Failed { error } => self.core.report(client::Error::new(error.kind(), error.to_string())),
            Event::Missed { .. } => {}
        }
        self.events.send(event);
    }

    /// Ends the streams of events, because the consumer has ended.
    pub(super) fn finish(&self) {
        self.finished.send_replace(true);
    }

    /// Returns a stream of the events from now on, until the consumer has ended.
    pub(super) fn subscribe(&self) -> Events {
        let mut finished = self.finished.subscribe();
        let finished = async move {
            let _ = finished.wait_for(|finished| *finished).await;
        };
        Events { events: self.events.subscribe(finished, |events| Event::Missed { events }) }
    }
}

/// A stream of the events of a consumer; see [`Consumer::events`](super::Consumer::events). A reader that falls 1 024
/// events behind gets [`Event::Missed`]. The stream ends when the consumer and all its clones and deliveries are
/// dropped: failures after a close are reported too.
pub struct Events {
    events: BoxStream<'static, Event>,
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_displayed_in_one_line() {
        let error = || Error::Lost { path: "/q".into(), name: "a".to_owned() };
        let (item, reason) = ("a".to_owned(), "no such order".to_owned());
        let interrupted = |claim_lost| Event::Interrupted { item: "a".to_owned(), attempt: 2, claim_lost };
        for (event, text) in [
            (
                Event::DeadLetter { item: item.clone(), attempts: 2, reason },
                "a is a dead letter now, failed deliveries: 2: no such order",
            ),
            (Event::Unsettled { item, error: error() }, "a could not be settled: queue at /q: the claim on a was lost"),
            (interrupted(false), "the handler of a was dropped in delivery 2"),
            (interrupted(true), "the handler of a was dropped in delivery 2, and its claim is lost"),
            (Event::Skipped { node: "b".to_owned() }, "b is in no format of an item, and is ignored"),
            (
                Event::FarAhead { item: "b".to_owned() },
                "b waits for a time more than ten years away; it may be an id that looks like a time",
            ),
            (Event::Failed { error: error() }, "failed, and is retried: queue at /q: the claim on a was lost"),
            (Event::Missed { events: 3 }, "3 events were not read in time and are lost"),
        ] {
            assert_eq!(event.to_string(), text);
        }
    }
}
