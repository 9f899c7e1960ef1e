//! Whoever puts items into a queue.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::envelope;
use super::error::Error;
use super::names::{Places, listable};
use super::pipe::{Order, Pipe, Put};
use super::room::Room;
use super::serializer::Serializer;
use crate::client::core::Core;
use crate::client::{self, Client, ErrorKind};

/// So much may wait to be put, for one producer: a put beyond it waits. Each node counts for a little more than its bytes.
const WINDOW_BYTES: usize = 4 << 20;
const NODE_BYTES: usize = 256;
/// Of what a request may have, this is kept for its paths, and for the reason of a dead letter.
pub(super) const RESERVED_BYTES: usize = 4 * 1024;

/// What the handles and the task of a producer share.
#[derive(Debug)]
pub(super) struct Shared {
    path: Arc<str>,
    /// Ordered, and not settled yet.
    pending: watch::Sender<usize>,
    /// The first failure that nobody has awaited.
    unseen: Mutex<Option<Error>>,
    closed: watch::Sender<bool>,
    /// There was no room at the last look.
    pub(super) full: AtomicBool,
}

impl Shared {
    pub(super) fn closed(&self) -> Error {
        Error::Closed { path: Arc::clone(&self.path) }
    }

    /// One of those that were ordered is settled.
    pub(super) fn settled(&self) {
        self.pending.send_modify(|pending| *pending -= 1);
    }

    /// Kept for the next flush.
    pub(super) fn note_unseen(&self, error: Error) {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Nobody can ask any more.
    pub(super) fn report_unseen(&self, core: &Core) {
        if let Some(error) = self.unseen.lock().unwrap_or_else(PoisonError::into_inner).take() {
            core.report(client::Error::new(error.kind(), error.to_string()));
        }
    }
}

/// Puts items into a queue: in order, and each exactly once, also when answers are lost on the way. Cheap to clone; all clones
/// share one pipe.
///
/// Puts that wait at the same time share transactions. To have many under way from one task use
/// [`enqueue`](Self::enqueue) and [`flush`](Self::flush), or poll several [`put`](Self::put)s at once.
///
/// When the last clone is dropped, what was enqueued is still put, for as long as there is a [`Client`].
pub struct Producer<S: Serializer> {
    inner: Arc<Inner<S>>,
}

struct Inner<S> {
    client: Client,
    places: Arc<Places>,
    serializer: Arc<S>,
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Order>,
    /// Whoever has it is the next to enqueue.
    room: tokio::sync::Mutex<Room>,
    window: Arc<Semaphore>,
    max_items: Option<usize>,
    /// How many bytes a node may have.
    limit: usize,
}

impl<S: Serializer> Producer<S> {
    pub(super) fn new(client: &Client, places: &Arc<Places>, serializer: &Arc<S>, max_items: Option<usize>) -> Self {
        let core = client.core();
        let (orders, ordered) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            path: Arc::clone(&places.path),
            pending: watch::Sender::new(0),
            unseen: Mutex::default(),
            closed: watch::Sender::new(false),
            full: AtomicBool::new(false),
        });
        let pipe = Pipe::new(core, places, &shared, ordered);
        core.runtime.spawn(pipe.run());
        let inner = Inner {
            client: client.clone(),
            places: Arc::clone(places),
            serializer: Arc::clone(serializer),
            shared,
            orders,
            room: tokio::sync::Mutex::new(Room::new(max_items, listable(core.config.max_request_bytes))),
            window: Arc::new(Semaphore::new(WINDOW_BYTES)),
            max_items,
            limit: core.config.max_request_bytes.saturating_sub(RESERVED_BYTES + places.items.len()),
        };
        Producer { inner: Arc::new(inner) }
    }

    /// Puts an item, and returns when it is in the queue. Waits as long as that takes: for room if the queue
    /// [is bounded](super::DistributedQueueBuilder::max_items), and for a connection.
    ///
    /// # Errors
    /// [`ErrorKind::OutcomeUnknown`] if the session ended before an answer came: the item may or may not be in the queue, once.
    /// Every other error says that it is not: [`Error::Unserializable`], [`Error::TooLarge`], [`Error::ListingLimit`],
    /// [`Error::Closed`], [`Error::Client`] such as for want of permission.
    ///
    /// # Cancel safety
    /// Dropped before it is [enqueued](Self::enqueue) nothing is put; after that the item is put all the same.
    pub async fn put(&self, item: impl Into<S::Item> + Send) -> Result<(), Error> {
        self.enqueue(item).await?.await
    }

    /// Puts several items as one node: all of them or none, to be delivered together, to one consumer, in order. The node counts
    /// as one item. Without any items nothing is put.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// As [`put`](Self::put).
    pub async fn put_many<I>(&self, items: I) -> Result<(), Error>
    where
        I: IntoIterator<Item: Into<S::Item>> + Send,
    {
        let items: Vec<_> = items.into_iter().collect();
        if items.is_empty() {
            return Ok(());
        }
        let payload = self.payload(items);
        self.order(payload?).await?.await
    }

    /// As [`put`](Self::put), for no longer than `timeout` in all.
    ///
    /// # Errors
    /// [`Error::Full`] if there was no room in time, and [`ErrorKind::TimedOut`] if it could not be begun in time for another
    /// reason, such as for want of a connection: nothing was put. [`ErrorKind::OutcomeUnknown`] if it was enqueued in time but
    /// not confirmed: it is put in the background. Otherwise as [`put`](Self::put).
    ///
    /// # Cancel safety
    /// As [`put`](Self::put).
    pub async fn put_timeout(&self, item: impl Into<S::Item> + Send, timeout: Duration) -> Result<(), Error> {
        let Some(deadline) = Instant::now().checked_add(timeout) else {
            return self.put(item).await;
        };
        let payload = self.payload([item])?;
        let Ok(enqueued) = timeout_at(deadline, self.order(payload)).await else {
            return Err(self.not_begun(timeout));
        };
        match timeout_at(deadline, enqueued?).await {
            Ok(put) => put,
            Err(_) => {
                let message = format!("put into {}: not confirmed within {timeout:?}; it goes on", self.path());
                Err(Error::client(&self.inner.places.path, client::Error::new(ErrorKind::OutcomeUnknown, message)))
            }
        }
    }

    /// Hands an item over, to be put after those that were handed over before, and returns once it is on its way: at once,
    /// unless the queue is full, or too much is on its way already (4 MiB). What comes of it the value tells that is returned;
    /// if that is dropped, [`flush`](Self::flush) tells of a failure.
    ///
    /// # Errors
    /// As [`put`](Self::put), as far as it is known by then.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped before it is ready, nothing is put.
    pub async fn enqueue(&self, item: impl Into<S::Item> + Send) -> Result<Enqueued, Error> {
        let payload = self.payload([item]);
        self.order(payload?).await
    }

    /// Waits until everything is in the queue that was enqueued before.
    ///
    /// # Errors
    /// The first failure, since the last flush, of a put that nobody awaited. It is told once.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn flush(&self) -> Result<(), Error> {
        let (done, flushed) = oneshot::channel();
        // The task is gone with its runtime only.
        let _ = self.inner.orders.send(Order::Flush(done));
        let flushed = flushed.await;
        self.outcome(flushed)
    }

    /// Takes no more items: puts that wait for room end with [`Error::Closed`]. Waits as [`flush`](Self::flush) does, then
    /// deletes the producer's own node. Closing twice is fine.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    ///
    /// # Cancel safety
    /// Once polled, the producer is closed also if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.inner.shared.closed.send_replace(true);
        let (done, closed) = oneshot::channel();
        let _ = self.inner.orders.send(Order::Close(done));
        let closed = closed.await;
        self.outcome(closed)
    }

    /// The path of the queue.
    pub fn path(&self) -> &str {
        &self.inner.places.path
    }

    fn outcome(&self, told: Result<(), oneshot::error::RecvError>) -> Result<(), Error> {
        if let Some(unseen) = self.inner.shared.unseen.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(unseen);
        }
        told.map_err(|_| self.inner.shared.closed())
    }

    /// The bytes of a node with these items.
    fn payload<I: IntoIterator<Item: Into<S::Item>>>(&self, items: I) -> Result<Vec<u8>, Error> {
        let inner = &*self.inner;
        let mut bytes = Vec::new();
        for item in items {
            let item = inner.serializer.serialize(&item.into());
            let path = Arc::clone(&inner.places.path);
            bytes.push(item.map_err(|error| Error::Unserializable { path, why: error.to_string() })?);
        }
        let payload = envelope::encode(&bytes);
        if payload.len() > inner.limit {
            let path = Arc::clone(&inner.places.path);
            return Err(Error::TooLarge { path, bytes: payload.len(), limit: inner.limit });
        }
        Ok(payload)
    }

    /// Hands a node over, in the order of the calls.
    async fn order(&self, payload: Vec<u8>) -> Result<Enqueued, Error> {
        let mut closed = self.inner.shared.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(self.inner.shared.closed()),
            ordered = self.order_in_turn(payload) => ordered,
        }
    }

    async fn order_in_turn(&self, payload: Vec<u8>) -> Result<Enqueued, Error> {
        let inner = &*self.inner;
        // Whoever is polled first is first, also one whose task has used up its turn and must let others run.
        let mut room = tokio::task::unconstrained(inner.room.lock()).await;
        // A loop over puts that never wait must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let bytes = u32::try_from((payload.len() + NODE_BYTES).min(WINDOW_BYTES)).unwrap_or(u32::MAX);
        let window = Arc::clone(&inner.window).acquire_many_owned(bytes).await;
        let window = window.map_err(|_| inner.shared.closed())?;
        room.take(inner.client.core(), &inner.places, &inner.shared.pending, &inner.shared.full).await?;
        let (done, outcome) = oneshot::channel();
        inner.shared.pending.send_modify(|pending| *pending += 1);
        let put = Put { payload, done, window };
        inner.orders.send(Order::Put(put)).map_err(|_| inner.shared.closed())?;
        Ok(Enqueued { outcome, shared: Arc::clone(&inner.shared) })
    }

    /// What a put that was not begun in time says.
    fn not_begun(&self, timeout: Duration) -> Error {
        let path = &self.inner.places.path;
        match self.inner.max_items {
            Some(limit) if self.inner.shared.full.load(Ordering::Acquire) => {
                Error::Full { path: Arc::clone(path), limit }
            }
            _ => {
                let message = format!(
                    "put into {path}: not begun within {timeout:?}, for want of an answer of the servers, or behind other puts"
                );
                Error::client(path, client::Error::new(ErrorKind::TimedOut, message))
            }
        }
    }
}

impl<S: Serializer> Clone for Producer<S> {
    fn clone(&self) -> Self {
        Producer { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Serializer> fmt::Debug for Producer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// An item that is on its way: a future of what comes of it, as [`Producer::put`] tells it. It is put also if this is dropped;
/// then [`Producer::flush`] tells of a failure.
#[derive(Debug)]
#[must_use = "it tells whether the item was put; or use flush()"]
pub struct Enqueued {
    outcome: oneshot::Receiver<Result<(), Error>>,
    shared: Arc<Shared>,
}

impl Future for Enqueued {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The task is gone with its runtime only.
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        Poll::Ready(outcome.unwrap_or_else(|_| Err(self.shared.closed())))
    }
}

impl Drop for Enqueued {
    fn drop(&mut self) {
        // Told, and never heard.
        if let Ok(Err(unseen)) = self.outcome.try_recv() {
            self.shared.note_unseen(unseen);
        }
    }
}
