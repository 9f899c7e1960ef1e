//! Taking items out of a queue.

mod buffer;
mod claim;
mod delivery;
mod handle;
mod handler;
mod items;
mod outcome;
mod settle;
mod shared;
mod task;
mod turn;
mod view;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt};
use tokio::sync::{mpsc, oneshot};

use self::buffer::Buffer;
use self::delivery::Command;
pub use self::delivery::Delivery;
pub use self::handle::{ClaimHandle, ClaimLost};
pub use self::handler::{AckMode, Failure, QueueHandler};
use self::items::Items;
use self::shared::Shared;
use self::task::Task;
use super::Options;
use super::error::Error;
use super::events::{Events, Publisher};
use super::serializer::Serializer;
use super::znodes::Paths;
use crate::client::Client;

/// Takes items out of a queue. Cheap to clone; all clones share one task, and any number of callers may
/// [`take`](Self::take).
///
/// Nothing is claimed before a caller asks; then one item for each caller that waits, and [as many
/// more](super::DistributedQueueBuilder::prefetch) as were wished. When the last clone is dropped, what no caller has
/// taken is returned; what was delivered is left alone.
///
/// It needs ZooKeeper 3.6: earlier servers have no persistent watches, and [`take`](Self::take) says
/// [`ErrorKind::Unimplemented`](crate::ErrorKind::Unimplemented).
///
/// While it exists the client keeps its lease, at the cost of six small requests a session timeout. With a client that
/// nothing else used for long, the first take waits until the lease is proven: the length of a tick of the servers.
pub struct Consumer<S: Serializer> {
    inner: Arc<Inner<S>>,
}

struct Inner<S: Serializer> {
    client: Client,
    shared: Arc<Shared>,
    options: Options,
    buffer: Arc<Buffer<S::Item>>,
    commands: mpsc::UnboundedSender<Command>,
}

impl<S: Serializer> Consumer<S> {
    pub(super) fn new(client: &Client, paths: &Arc<Paths>, serializer: &Arc<S>, options: Options) -> Self {
        let core = client.core();
        let (commands, commanded) = mpsc::unbounded_channel();
        let buffer = Arc::new(Buffer::new(options.prefetch));
        let shared = Arc::new(Shared {
            core: Arc::clone(core),
            paths: Arc::clone(paths),
            events: Publisher::new(core, &paths.path),
            holder: core.random.uuid().to_string(),
            max_deliveries: options.max_deliveries,
        });
        let items = Items::new(options.strict_order);
        let task = Task::new(Arc::clone(&shared), serializer, &buffer, items, commanded);
        core.runtime.spawn(task.run());
        Consumer { inner: Arc::new(Inner { client: client.clone(), shared, options, buffer, commands }) }
    }

    /// The next item, claimed: no other consumer gets it until it is settled, or the session that claimed it ends.
    /// Waits as long as it takes, also through the loss of a session.
    ///
    /// # Errors
    /// [`Error::Client`] if the queue could not be seen or an item not be claimed, for example without permission; the
    /// next call tries again. [`Error::Closed`] if the consumer or the client was closed.
    ///
    /// # Cancel safety
    /// Cancel safe: what was claimed for it goes to the next call, or back into the queue after a second without one.
    pub async fn take(&self) -> Result<Delivery<S::Item>, Error> {
        // A loop over items that are there must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let inner = &*self.inner;
        let (ready, grant) = inner.buffer.take().await?;
        let claim = ClaimHandle::new(&inner.client, ready.claim, grant);
        Ok(Delivery::new(ready.items, claim, inner.commands.clone()))
    }

    /// The items as a stream: of each [`take`](Self::take) one, until the consumer or the client is closed. Between two
    /// polls nothing is asked for.
    pub fn deliveries(&self) -> Deliveries<S> {
        let taken = futures::stream::unfold(Some(self.clone()), |consumer| async move {
            let consumer = consumer?;
            match consumer.take().await {
                Err(Error::Closed { .. }) => None,
                taken => Some((taken, Some(consumer))),
            }
        });
        Deliveries { taken: taken.fuse().boxed() }
    }

    /// What happens in this consumer from now on that no call returns: dead letters, settlements that failed, nodes
    /// that are left alone. The same is logged.
    pub fn events(&self) -> Events {
        self.inner.shared.events.subscribe()
    }

    /// Claims no more items, and returns those that no caller has taken; then [`take`](Self::take) says
    /// [`Error::Closed`]. What was delivered can still be settled. Waits until everything is settled of which that was
    /// asked before, as long as that takes: also for a permission that is missing. Closing twice is fine.
    ///
    /// # Cancel safety
    /// Once polled, the consumer is closed also if the future is dropped.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        // The task is gone with its runtime only.
        let _ = self.inner.commands.send(Command::Close(Some(done)));
        let _ = closed.await;
    }

    /// The path of the queue.
    pub fn path(&self) -> &str {
        &self.inner.shared.paths.path
    }
}

impl<S: Serializer> Drop for Inner<S> {
    fn drop(&mut self) {
        // The task is gone with its runtime only.
        let _ = self.commands.send(Command::Close(None));
    }
}

impl<S: Serializer> Clone for Consumer<S> {
    fn clone(&self) -> Self {
        Consumer { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Serializer> fmt::Debug for Consumer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The items of a queue, as they are taken; see [`Consumer::deliveries`].
pub struct Deliveries<S: Serializer> {
    taken: BoxStream<'static, Result<Delivery<S::Item>, Error>>,
}

impl<S: Serializer> Stream for Deliveries<S> {
    type Item = Result<Delivery<S::Item>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.taken.poll_next_unpin(cx)
    }
}

impl<S: Serializer> fmt::Debug for Deliveries<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliveries").finish_non_exhaustive()
    }
}
