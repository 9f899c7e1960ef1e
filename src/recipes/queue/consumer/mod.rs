//! The consumer's half of a queue: the handle, and the task behind it.

mod buffer;
mod claim;
mod contention;
mod delivery;
mod handle;
mod handler;
mod items;
mod outcome;
mod running;
mod settle;
mod shared;
mod spawned;
mod task;
mod times;
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
pub use self::handler::{Failure, QueueHandler};
use self::items::Items;
use self::shared::Shared;
pub use self::spawned::Spawned;
use self::task::Task;
use super::Options;
use super::error::Error;
use super::events::{Events, Publisher};
use crate::client::Client;
use crate::layout::queue::Paths;
use crate::util::serializer::Serializer;

/// Takes items out of a queue. Cheap to clone; all clones share one task, and any number of callers may
/// [`take`](Self::take).
///
/// A consumer claims nothing before the first call. Then it claims one item for each waiting call, plus the number set
/// by [`prefetch`](super::DistributedQueueBuilder::prefetch). When the last clone is dropped, items that no caller has
/// taken are returned to the queue. Deliveries are not affected.
///
/// It needs ZooKeeper 3.6: earlier servers have no persistent watches, and [`take`](Self::take) returns
/// [`ErrorKind::Unimplemented`](crate::ErrorKind::Unimplemented).
///
/// While the consumer exists, the client keeps its lease, at the cost of six small requests in each session timeout. If
/// the client was not in use for long, the first take waits until the lease is proven: the length of a tick of the
/// servers.
///
/// ```no_run
/// use futures::StreamExt;
/// use zookeeper_recipes::queue::{Consumer, Error, Utf8};
///
/// # async fn example(consumer: Consumer<Utf8>) -> Result<(), Error> {
/// let mut deliveries = consumer.deliveries();
/// while let Some(delivery) = deliveries.next().await {
///     let delivery = delivery?;
///     println!("{}", delivery.item());
///     delivery.ack().await?;
/// }
/// # Ok(())
/// # }
/// ```
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
        outcome::register_metrics(&shared);
        let items = Items::default();
        let task = Task::new(Arc::clone(&shared), serializer, &buffer, items, commanded);
        core.runtime.spawn(task.run());
        Consumer { inner: Arc::new(Inner { client: client.clone(), shared, options, buffer, commands }) }
    }

    /// Waits for the next item, claims it and returns it: no other consumer gets it until it is settled, or until the
    /// session that claimed it ends. Waits without a time limit, even if a session is lost meanwhile.
    ///
    /// # Errors
    /// [`Error::Client`] if the queue could not be read or an item could not be claimed, for example because a
    /// permission is missing; the next call retries. [`Error::Closed`] if the consumer or the client was closed.
    ///
    /// # Cancel safety
    /// Cancel safe: the next call gets the item that was claimed for this one. If there is no call for a second, the
    /// item is returned to the queue.
    pub async fn take(&self) -> Result<Delivery<S::Item>, Error> {
        // A caller that loops over available items must still yield to other tasks.
        tokio::task::coop::consume_budget().await;
        let inner = &*self.inner;
        let (ready, grant) = inner.buffer.take().await?;
        let claim = ClaimHandle::new(&inner.client, ready.claim, grant);
        Ok(Delivery::new(ready.items, claim, inner.commands.clone()))
    }

    /// Returns a stream that [`take`](Self::take)s one item at a time, until the consumer or the client is closed. It
    /// takes the next item only when it is polled.
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

    /// Returns a stream of what happens in this consumer from now on and no call returns: dead letters, failed
    /// settlements, ignored nodes. These events are logged as well.
    pub fn events(&self) -> Events {
        self.inner.shared.events.subscribe()
    }

    /// Closes the consumer. It claims no more items, and returns those that no caller has taken to the queue. From then
    /// on [`take`](Self::take) returns [`Error::Closed`]. Deliveries can still be settled. Waits until all settlements
    /// that were requested before are done, without a time limit, even while a permission is missing. May be called
    /// more than once.
    ///
    /// # Cancel safety
    /// Once polled, the consumer is closed even if the future is dropped.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        // The task is missing only if its runtime has ended.
        let _ = self.inner.commands.send(Command::Close(Some(done)));
        let _ = closed.await;
    }

    /// Returns the path of the queue.
    pub fn path(&self) -> &str {
        &self.inner.shared.paths.path
    }
}

impl<S: Serializer> Drop for Inner<S> {
    fn drop(&mut self) {
        // The task is missing only if its runtime has ended.
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

/// A stream of deliveries; see [`Consumer::deliveries`].
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
