//! Where the events of a cache come from.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{Fuse, FuturesUnordered, StreamExt};
use tokio::task::coop::unconstrained;

use super::tracker::Watching;
use crate::engine::{Event, PersistentEvent, PersistentWatch, Watch};

/// Something that a server reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Something happened to the node at this path.
    Node(Arc<str>, Event),
    /// Events may be missing.
    Missed,
}

/// The armed watches.
pub(super) enum Source {
    /// Ends with its session, and may be polled after that.
    Persistent(Fuse<PersistentWatch>),
    /// One for each node and for each list, from servers before 3.6.
    OneShot(FuturesUnordered<BoxFuture<'static, (Arc<str>, Event)>>),
}

impl Source {
    pub(super) fn persistent(watch: PersistentWatch) -> Self {
        Source::Persistent(watch.fuse())
    }

    pub(super) fn one_shot() -> Self {
        Source::OneShot(FuturesUnordered::new())
    }

    pub(super) fn watching(&self) -> Watching {
        match self {
            Source::Persistent(_) => Watching::Persistent,
            Source::OneShot(_) => Watching::OneShot,
        }
    }

    /// Adds the watch that a read has armed.
    pub(super) fn add(&mut self, path: Arc<str>, watch: Watch) {
        if let Source::OneShot(watches) = self {
            // Without a budget, as a watch that is not polled for that reason would look as if it had not fired.
            watches.push(unconstrained(watch.map(|event| (path, event))).boxed());
        }
    }

    /// Takes all events that have arrived, without waiting.
    pub(super) async fn drained(&mut self) -> Vec<Notice> {
        let mut notices = Vec::new();
        poll_fn(|cx| {
            self.drain(cx, &mut notices);
            Poll::Ready(())
        })
        .await;
        notices
    }

    /// Takes all events that have arrived.
    pub(super) fn drain(&mut self, cx: &mut Context<'_>, into: &mut Vec<Notice>) {
        match self {
            Source::Persistent(events) => {
                while let Poll::Ready(Some(event)) = events.poll_next_unpin(cx) {
                    into.push(match event {
                        PersistentEvent::Node { path, event } => Notice::Node(path.into(), event),
                        PersistentEvent::Resync => Notice::Missed,
                    });
                }
            }
            // It may pause after having polled each watch once.
            Source::OneShot(watches) => (0..2).for_each(|_| {
                while let Poll::Ready(Some((path, event))) = watches.poll_next_unpin(cx) {
                    into.push(Notice::Node(path, event));
                }
            }),
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.watching())
    }
}
