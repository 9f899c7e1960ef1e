//! The producer's half of a queue: the handle, and the task behind it.

mod batch;
mod capacity;
mod failures;
mod key;
mod put;
mod room;
mod task;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use self::capacity::Capacity;
use self::failures::Failures;
use self::key::Setting;
pub use self::put::Enqueued;
use self::put::{Node, Put, failed};
use self::task::{Command, Task};
use super::envelope;
use super::error::Error;
use super::sizes;
use crate::client::{Client, ErrorKind};
use crate::layout::queue::Paths;
use crate::util::serializer::Serializer;

/// Puts items into a queue: in order, and each exactly once, even if answers are lost. Cheap to clone; all clones share
/// one task.
///
/// Puts that wait at the same time share transactions. To have many puts in flight from one task, use
/// [`enqueue`](Self::enqueue) and [`flush`](Self::flush), or poll several [`put`](Self::put)s concurrently.
///
/// After the last clone is dropped, enqueued items are still put, for as long as the [`Client`] exists.
///
/// Items may have a [time](Self::after), a [priority](Self::priority) or an [id](Self::id). The name of an item has
/// room for one of these, as in Curator's queues. Each of these methods returns a clone with this setting, for all of
/// its puts. A later setting replaces an earlier one of the same kind. With settings of two kinds, such as an id and a
/// time, each put is [`Error::InvalidOption`].
///
/// ```no_run
/// use zookeeper_recipes::queue::{Error, Producer, Utf8};
///
/// # async fn example(producer: Producer<Utf8>) -> Result<(), Error> {
/// producer.put("one order").await?; // it is in the queue
///
/// // Many at once: `flush` returns the failures.
/// for number in 0..1_000 {
///     drop(producer.enqueue(format!("order {number}")).await?);
/// }
/// producer.flush().await?;
///
/// // Delivered in five minutes, before all others, and under an id.
/// let minutes = std::time::Duration::from_secs(300);
/// producer.put_after("a reminder", minutes).await?;
/// producer.priority(-1).put("an urgent order").await?;
/// producer.id("order-7").put("one that may be cancelled").await?;
/// producer.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct Producer<S: Serializer> {
    inner: Arc<Inner<S>>,
    setting: Setting,
}

struct Inner<S: Serializer> {
    client: Client,
    paths: Arc<Paths>,
    serializer: Arc<S>,
    failures: Arc<Failures>,
    commands: mpsc::UnboundedSender<Command>,
    closed: watch::Sender<bool>,
    capacity: Capacity,
}

impl<S: Serializer> Producer<S> {
    pub(super) fn new(client: &Client, paths: &Arc<Paths>, serializer: &Arc<S>, max_items: Option<usize>) -> Self {
        let core = client.core();
        let (commands, commanded) = mpsc::unbounded_channel();
        let failures = Failures::new(&paths.path);
        let closed = watch::Sender::new(false);
        core.runtime.spawn(
            Task::new(Arc::clone(core), Arc::clone(paths), Arc::clone(&failures), commanded, closed.subscribe()).run(),
        );
        let inner = Inner {
            client: client.clone(),
            paths: Arc::clone(paths),
            serializer: Arc::clone(serializer),
            failures,
            commands,
            closed,
            capacity: Capacity::new(max_items),
        };
        Producer { inner: Arc::new(inner), setting: Setting::None }
    }

    /// Returns a clone whose items are delivered only when `delay` is over, which begins with the call that puts them.
    /// Until then they are in the queue, and other items go first. The time is one of day; see [times](super#times).
    ///
    /// A put is [`Error::InvalidOption`] if the delay ends after the year 2526.
    #[doc(alias = "DistributedDelayQueue")]
    pub fn after(&self, delay: Duration) -> Self {
        self.with(self.setting.and(Setting::After(delay)))
    }

    /// Returns a clone whose items are delivered only from this time on, as with [`after`](Self::after). Items with a
    /// time that is over are delivered at once.
    pub fn at(&self, time: SystemTime) -> Self {
        self.with(self.setting.and(Setting::At(time)))
    }

    /// Returns a clone whose items have this priority: those with lower numbers are delivered first, as in Curator's
    /// queue. Items without a priority are among those with priority 0; see [the order](super#order).
    #[doc(alias = "DistributedPriorityQueue")]
    pub fn priority(&self, priority: i32) -> Self {
        self.with(self.setting.and(Setting::Priority(priority)))
    }

    /// Returns a clone whose items have this id, by which [`remove`](super::DistributedQueue::remove) finds them. Ids
    /// need not be unique. Slashes and vertical lines become underlines, as in Curator's queue.
    ///
    /// A put is [`Error::InvalidOption`] if the id is empty, has more than 255 bytes or a character that no path may
    /// have. It is as well if the id consists of 11 digits and capitals up to F without a 0 in front, or of 13 to 16
    /// with a capital: then the item would be taken for a delayed one.
    #[doc(alias = "DistributedIdQueue")]
    pub fn id(&self, id: impl Into<String>) -> Self {
        self.with(self.setting.and(Setting::Id(id.into())))
    }

    fn with(&self, setting: Setting) -> Self {
        Producer { inner: Arc::clone(&self.inner), setting }
    }

    /// Puts an item, and returns when it is in the queue. Waits without a time limit: for room if the queue
    /// [is bounded](super::DistributedQueueBuilder::max_items), and for a connection.
    ///
    /// # Errors
    /// [`ErrorKind::OutcomeUnknown`] if, before an answer came, the session ended or another client deleted or wrote
    /// the producer's node: the item may or may not be in the queue, but not twice. With every other error the item was
    /// not put: [`Error::Unserializable`], [`Error::TooLarge`], [`Error::Closed`], or [`Error::Client`], for example if
    /// a permission is missing.
    ///
    /// # Cancel safety
    /// If the future is dropped before the item is [enqueued](Self::enqueue), nothing is put. After that the item is
    /// put anyway. The call itself serializes the item, before the future is polled.
    pub fn put(&self, item: impl Into<S::Item>) -> impl Future<Output = Result<(), Error>> + Send {
        let node = self.node([item]);
        async move { self.submit(node?).await?.await }
    }

    /// Puts an item as [`put`](Self::put) does, to be delivered only [after](Self::after) this delay.
    ///
    /// # Errors
    /// As [`put`](Self::put), and [`Error::InvalidOption`] if the delay ends after the year 2526.
    ///
    /// # Cancel safety
    /// As [`put`](Self::put). The delay begins with the call itself.
    pub fn put_after(
        &self,
        item: impl Into<S::Item>,
        delay: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let node = self.after(delay).node([item]);
        async move { self.submit(node?).await?.await }
    }

    /// Puts an item as [`put`](Self::put) does, to be delivered only [from](Self::at) this time on.
    ///
    /// # Errors
    /// As [`put_after`](Self::put_after).
    ///
    /// # Cancel safety
    /// As [`put`](Self::put).
    pub fn put_at(&self, item: impl Into<S::Item>, time: SystemTime) -> impl Future<Output = Result<(), Error>> + Send {
        let node = self.at(time).node([item]);
        async move { self.submit(node?).await?.await }
    }

    /// Puts several items as one node: all of them or none. They are delivered together, to one consumer, in order. The
    /// node counts as one item. If there are no items, nothing is put.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// As [`put`](Self::put).
    #[doc(alias = "putMulti")]
    #[doc(alias = "MultiItem")]
    pub fn put_many<I>(&self, items: I) -> impl Future<Output = Result<(), Error>> + Send
    where
        I: IntoIterator<Item: Into<S::Item>>,
    {
        let mut items = items.into_iter().peekable();
        let node = items.peek().is_some().then(|| self.node(items));
        async move {
            let Some(node) = node else { return Ok(()) };
            self.submit(node?).await?.await
        }
    }

    /// Puts an item as [`put`](Self::put) does, within `timeout` in all.
    ///
    /// # Errors
    /// [`Error::Full`] if the queue was full meanwhile, and [`ErrorKind::TimedOut`] if the put could not be started in
    /// time for another reason, such as a missing connection: nothing was put. [`ErrorKind::OutcomeUnknown`] if the
    /// item was enqueued in time but not confirmed: it is put in the background. Otherwise as [`put`](Self::put).
    ///
    /// No request is answered within a zero timeout. Such a call returns [`ErrorKind::OutcomeUnknown`], or
    /// [`ErrorKind::TimedOut`] if the items have to be counted first (for the first put, and regularly for a bounded
    /// queue).
    ///
    /// # Cancel safety
    /// As [`put`](Self::put).
    pub fn put_timeout(
        &self,
        item: impl Into<S::Item>,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let node = self.node([item]);
        async move {
            let began = Instant::now();
            let Ok(enqueued) = tokio::time::timeout(timeout, self.submit(node?)).await else {
                return Err(self.not_begun(began, timeout));
            };
            let left = timeout.saturating_sub(began.elapsed());
            let put = tokio::time::timeout(left, enqueued?).await;
            put.unwrap_or_else(|_| Err(self.not_confirmed(timeout)))
        }
    }

    /// Enqueues an item, to be put after those that were enqueued before, and returns without waiting for the put. It
    /// waits if the queue is full, and if too many bytes are in flight already (4 MiB). It also waits for a connection
    /// to count the items: about once in a thousand puts, or once for each batch of a bounded queue. The returned
    /// [`Enqueued`] resolves to the outcome of the put. If it is dropped, [`flush`](Self::flush) reports a failure.
    ///
    /// # Errors
    /// As [`put`](Self::put), as far as the error is known by then.
    ///
    /// # Cancel safety
    /// Cancel safe: if the future is dropped before it is ready, nothing is put.
    pub fn enqueue(&self, item: impl Into<S::Item>) -> impl Future<Output = Result<Enqueued, Error>> + Send {
        let node = self.node([item]);
        async move { self.submit(node?).await }
    }

    /// Waits until all items that were enqueued before are in the queue.
    ///
    /// # Errors
    /// [`Error::Unawaited`] with all failures, since the last flush, of puts that were not awaited. Each failure is
    /// reported once.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    #[doc(alias = "flushPuts")]
    pub async fn flush(&self) -> Result<(), Error> {
        let inner = &*self.inner;
        let (done, flushed) = oneshot::channel();
        // The task is missing only if its runtime has ended.
        let _ = inner.commands.send(Command::Flush(done));
        let flushed = flushed.await.map_err(|_| Error::closed(&inner.paths.path));
        inner.failures.take().map_or(flushed, Err)
    }

    /// Closes the producer, which accepts no more items: puts that wait for room return [`Error::Closed`]. Waits as
    /// [`flush`](Self::flush) does, then deletes the producer's own node. May be called more than once.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    ///
    /// # Cancel safety
    /// Once polled, the producer is closed even if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.inner.closed.send_replace(true);
        self.flush().await
    }

    /// Returns the path of the queue.
    pub fn path(&self) -> &str {
        &self.inner.paths.path
    }

    /// Serializes the items of one node.
    fn node<I: IntoIterator<Item: Into<S::Item>>>(&self, items: I) -> Result<Node, Error> {
        let inner = &*self.inner;
        let path = || Arc::clone(&inner.paths.path);
        let now = inner.client.core().clock.time_of_day();
        let key = self.setting.key(now).map_err(|why| Error::InvalidOption { path: path(), why })?;
        let serialized = items.into_iter().map(|item| inner.serializer.serialize(&item.into()));
        let serialized = serialized.collect::<Result<Vec<_>, _>>();
        let items = serialized.map_err(|error| Error::Unserializable { path: path(), why: error.to_string() })?;
        let payload = envelope::encode(&items);
        let (bytes, limit) = (payload.len(), sizes::largest_payload(&inner.client.core().config, &inner.paths));
        if bytes > limit { Err(Error::TooLarge { path: path(), bytes, limit }) } else { Ok(Node { key, payload }) }
    }

    /// Sends a node to the task, in the order of the calls.
    async fn submit(&self, node: Node) -> Result<Enqueued, Error> {
        let mut closed = self.inner.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(Error::closed(&self.inner.paths.path)),
            submitted = self.submit_in_turn(node) => submitted,
        }
    }

    async fn submit_in_turn(&self, node: Node) -> Result<Enqueued, Error> {
        let inner = &*self.inner;
        let (_count, window) = inner.capacity.take(inner.client.core(), &inner.paths, node.payload.len()).await?;
        let (put, enqueued) = Put::new(node, window, &inner.failures);
        let sent = inner.commands.send(Command::Put(put));
        sent.map(|()| enqueued).map_err(|_| Error::closed(&inner.paths.path))
    }

    /// The error of a put that was enqueued in time, but not confirmed.
    fn not_confirmed(&self, timeout: Duration) -> Error {
        let why = format!("not confirmed within {timeout:?}; the put continues");
        failed(&self.inner.paths.path, ErrorKind::OutcomeUnknown, &why)
    }

    /// The error of a put that was not started in time.
    fn not_begun(&self, began: Instant, timeout: Duration) -> Error {
        let path = &self.inner.paths.path;
        if let Some(limit) = self.inner.capacity.limit_reached(began) {
            return Error::Full { path: Arc::clone(path), limit };
        }
        let why = format!("not started within {timeout:?}: no server answered, or other puts came first");
        failed(path, ErrorKind::TimedOut, &why)
    }
}

impl<S: Serializer> Clone for Producer<S> {
    fn clone(&self) -> Self {
        self.with(self.setting.clone())
    }
}

impl<S: Serializer> fmt::Debug for Producer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("path", &self.path()).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::queue::{DistributedQueue, Utf8};
    use crate::testing::TestingServer;

    /// On several threads, a put can find the producer open and still come after the close.
    #[tokio::test(start_paused = true)]
    async fn a_put_that_comes_after_the_close_is_refused_and_makes_no_node() {
        let server = TestingServer::start();
        let client = Client::builder_for_testing(&server).connect().await.expect("a client");
        let producer = DistributedQueue::builder(&client, "/q", Utf8).build().expect("a good path").producer();
        producer.put("a").await.expect("put");
        producer.close().await.expect("closed");
        let late = producer.submit_in_turn(producer.node(["b"]).expect("small")).await.expect("handed over");
        assert!(matches!(late.await, Err(Error::Closed { .. })));
        assert_eq!(server.children("/q-producers"), [""; 0]);
        assert_eq!(server.children("/q").len(), 1);
    }
}
