//! What happens in a consumer that no caller awaits.

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

/// Something that happened in a [`Consumer`](super::Consumer), and that no call returned.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// This consumer made a [dead letter](super::DistributedQueue::dead_letters) of an item: by itself, in
    /// [`consume`](super::Consumer::consume), or as its caller said. Those of other consumers are not told, nor one
    /// whose answer was lost with the session: an alarm that must not miss any looks at the dead letters from time to
    /// time as well.
    DeadLetter {
        /// The name that the item had.
        item: String,
        /// How often it was delivered.
        attempts: u32,
        /// Why it was given up.
        reason: String,
    },
    /// An item could not be settled, and no caller was told: inside [`consume`](super::Consumer::consume), after the
    /// caller had dropped its future, or when the consumer made a dead letter by itself. If the item is still there, it
    /// is delivered again.
    Unsettled {
        /// The name of the item.
        item: String,
        /// Why.
        error: Error,
    },
    /// A handler failed at an item that had been acknowledged before: it is not delivered again. See
    /// [`AckMode::BeforeHandling`](super::AckMode::BeforeHandling).
    Dropped {
        /// The name that the item had.
        item: String,
        /// What the handler said.
        reason: String,
    },
    /// A node of the queue is an item of another kind of Curator's queues (by priority, with a delay, with ids): it is
    /// left alone. Told once for each.
    Skipped {
        /// The name of the node.
        node: String,
    },
    /// Something failed; it is tried again. [`Client::last_error`](crate::Client::last_error) keeps it as well.
    Failed {
        /// What and why.
        error: Error,
    },
    /// So many events were not read in time and are lost.
    Missed {
        /// How many.
        events: u64,
    },
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

    pub(super) fn tell(&self, event: Event) {
        let path = &*self.path;
        match &event {
            Event::DeadLetter { item, attempts, reason } => {
                tracing::warn!(path, item, attempts, reason, "dead letter");
            }
            Event::Dropped { item, reason } => tracing::warn!(path, item, reason, "an acknowledged item failed"),
            Event::Skipped { node } => tracing::warn!(path, node, "an item of another kind of queue is left alone"),
            Event::Unsettled { item, error } => {
                tracing::warn!(path, item, %error, kind = ?error.kind(), "an item could not be settled");
            }
            Event::Failed { error } => self.core.report(client::Error::new(error.kind(), error.to_string())),
            Event::Missed { .. } => {}
        }
        self.events.tell(event);
    }

    /// The consumer has ended.
    pub(super) fn finish(&self) {
        self.finished.send_replace(true);
    }

    /// The events from now on, until the consumer has ended.
    pub(super) fn subscribe(&self) -> Events {
        Events { events: self.events.subscribe(self.finished.subscribe(), |events| Event::Missed { events }) }
    }
}

/// What happens in a consumer from now on; see [`Consumer::events`](super::Consumer::events). A reader that falls 1 024
/// events behind gets [`Event::Missed`]. Ends when the consumer and all its clones and deliveries are gone: what fails after it
/// was closed is told too.
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
