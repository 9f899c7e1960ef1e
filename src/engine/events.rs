//! Watches, and their events.

use std::fmt;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::util::mutex::Mutex;

// Public because the test kit's records contain it.
/// An event of a watched node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The node was created.
    NodeCreated,
    /// The node was deleted.
    NodeDeleted,
    /// The node's data was written.
    NodeDataChanged,
    /// A child was created or deleted.
    NodeChildrenChanged,
    /// The session has ended; the state of the node is not known.
    SessionEnded,
}

/// An armed one-shot watch: a future that resolves once. Dropping it removes the watch.
pub(crate) struct Watch {
    /// The mutex is never locked: it makes the watch `Sync`, as its holder must be.
    event: Mutex<Option<BoxFuture<'static, Arrived>>>,
    arrived_at: Option<tokio::time::Instant>,
}

/// An event, and when it arrived.
pub(crate) type Arrived = (Event, tokio::time::Instant);

impl Watch {
    pub(crate) fn new(event: BoxFuture<'static, Arrived>) -> Self {
        Watch { event: Mutex::new(Some(event)), arrived_at: None }
    }

    /// Returns when the event arrived, which may be a while before the holder polled the watch.
    pub(crate) fn arrived_at(&self) -> Option<tokio::time::Instant> {
        self.arrived_at
    }
}

impl Future for Watch {
    type Output = Event;

    /// Resolves with the event; afterwards it stays pending forever.
    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Event> {
        let slot = self.event.get_mut();
        let Some(event) = slot else {
            return std::task::Poll::Pending;
        };
        let (event, arrived_at) = std::task::ready!(event.as_mut().poll(cx));
        *slot = None;
        self.arrived_at = Some(arrived_at);
        std::task::Poll::Ready(event)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// How much of the tree a [watch](crate::Client::watch) covers. The watch lasts until it is removed. It needs ZooKeeper
/// 3.6 or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchMode {
    /// The node, and the list of its children.
    Persistent,
    /// The node and everything below it. Lists of children have no events: each child has its own.
    PersistentRecursive,
}

/// An event of a persistent watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PersistentEvent {
    /// Something happened to the node at this path.
    Node { path: String, event: Event },
    /// Events may be missing, after a reconnect or because too many were unread: read the tree again.
    Resync,
}

/// An armed persistent watch: its events, until the session ends. Dropping it removes the watch.
pub(crate) type PersistentWatch = BoxStream<'static, PersistentEvent>;
