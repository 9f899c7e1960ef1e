//! The producer's half of a queue: its handle, and the task behind it.

mod capacity;
mod in_flight;
mod sequence;
mod task;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use self::capacity::Capacity;
use self::in_flight::{InFlight, Put};
use self::task::{Command, RESERVED_BYTES, Task};
use super::envelope;
use super::error::Error;
use super::serializer::Serializer;
use super::znodes::Paths;
use crate::client::{self, Client, ErrorKind};

/// So much may wait to be put, for one producer: a put beyond it waits. Each node counts for a little more than its bytes.
const WINDOW_BYTES: usize = 4 << 20;
const NODE_BYTES: usize = 256;

/// Puts items into a queue: in order, and each exactly once, also when answers are lost on the way. Cheap to clone; all clones
/// share one task.
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
    paths: Arc<Paths>,
    serializer: Arc<S>,
    in_flight: Arc<InFlight>,
    commands: mpsc::UnboundedSender<Command>,
    closed: watch::Sender<bool>,
    /// The one that has it is the next to enqueue.
    capacity: tokio::sync::Mutex<Capacity>,
    window: Arc<Semaphore>,
    max_items: Option<usize>,
    full: Arc<AtomicBool>,
    /// How many bytes a node may have.
    limit: usize,
}

impl<S: Serializer> Producer<S> {
    pub(super) fn new(client: &Client, paths: &Arc<Paths>, serializer: &Arc<S>, max_items: Option<usize>) -> Self {
        let core = client.core();
        let (commands, commanded) = mpsc::unbounded_channel();
        let in_flight = InFlight::new(&paths.path);
        core.runtime.spawn(Task::new(core, paths, &in_flight, commanded).run());
        let full = Arc::default();
        let inner = Inner {
            client: client.clone(),
            paths: Arc::clone(paths),
            serializer: Arc::clone(serializer),
            in_flight,
            commands,
            closed: watch::Sender::new(false),
            capacity: tokio::sync::Mutex::new(Capacity::new(max_items, &full)),
            window: Arc::new(Semaphore::new(WINDOW_BYTES)),
            max_items,
            full,
            limit: core.config.max_request_bytes.saturating_sub(RESERVED_BYTES + paths.items.len()),
        };
        Producer { inner: Arc::new(inner) }
    }

    /// Puts an item, and returns when it is in the queue. Waits as long as that takes: for room if the queue
    /// [is bounded](super::DistributedQueueBuilder::max_items), and for a connection.
    ///
    /// # Errors
    /// [`ErrorKind::OutcomeUnknown`] if before an answer came the session ended, or another client deleted or wrote the producer's
    /// node: the item may or may not be in the queue, once.
    /// Every other error says that it is not: [`Error::Unserializable`], [`Error::TooLarge`], [`Error::Closed`],
    /// [`Error::Client`] such as for want of permission.
    ///
    /// # Cancel safety
    /// Dropped before it is [enqueued](Self::enqueue) nothing is put; after that the item is put all the same. The item is
    /// serialized by the call itself.
    pub fn put(&self, item: impl Into<S::Item>) -> impl Future<Output = Result<(), Error>> + Send {
        let payload = self.payload([item]);
        async move { self.order(payload?).await?.await }
    }

    /// Puts several items as one node: all of them or none, to be delivered together, to one consumer, in order. The node counts
    /// as one item. Without any items nothing is put.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// As [`put`](Self::put).
    pub fn put_many<I>(&self, items: I) -> impl Future<Output = Result<(), Error>> + Send
    where
        I: IntoIterator<Item: Into<S::Item>>,
    {
        let mut items = items.into_iter().peekable();
        let payload = items.peek().is_some().then(|| self.payload(items));
        async move {
            match payload {
                Some(payload) => self.order(payload?).await?.await,
                None => Ok(()),
            }
        }
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
    pub fn put_timeout(
        &self,
        item: impl Into<S::Item>,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let payload = self.payload([item]);
        async move {
            let payload = payload?;
            let Some(deadline) = Instant::now().checked_add(timeout) else {
                return self.order(payload).await?.await;
            };
            let Ok(enqueued) = timeout_at(deadline, self.order(payload)).await else {
                return Err(self.not_begun(timeout));
            };
            match timeout_at(deadline, enqueued?).await {
                Ok(put) => put,
                Err(_) => Err(self.not_confirmed(timeout)),
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
    pub fn enqueue(&self, item: impl Into<S::Item>) -> impl Future<Output = Result<Enqueued, Error>> + Send {
        let payload = self.payload([item]);
        async move { self.order(payload?).await }
    }

    /// Waits until everything is in the queue that was enqueued before.
    ///
    /// # Errors
    /// [`Error::Unawaited`] with all failures, since the last flush, of puts that nobody awaited. They are told once.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn flush(&self) -> Result<(), Error> {
        let (done, flushed) = oneshot::channel();
        // The task is gone with its runtime only.
        let _ = self.inner.commands.send(Command::Flush(done));
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
        self.inner.closed.send_replace(true);
        let (done, closed) = oneshot::channel();
        let _ = self.inner.commands.send(Command::Close(done));
        let closed = closed.await;
        self.outcome(closed)
    }

    /// The path of the queue.
    pub fn path(&self) -> &str {
        &self.inner.paths.path
    }

    fn outcome(&self, told: Result<(), oneshot::error::RecvError>) -> Result<(), Error> {
        let failures = self.inner.in_flight.take_failures();
        failures.map_or_else(|| told.map_err(|_| self.inner.in_flight.closed()), Err)
    }

    /// The bytes of a node with these items.
    fn payload<I: IntoIterator<Item: Into<S::Item>>>(&self, items: I) -> Result<Vec<u8>, Error> {
        let inner = &*self.inner;
        let mut bytes = Vec::new();
        for item in items {
            let item = inner.serializer.serialize(&item.into());
            let path = Arc::clone(&inner.paths.path);
            bytes.push(item.map_err(|error| Error::Unserializable { path, why: error.to_string() })?);
        }
        let payload = envelope::encode(&bytes);
        if payload.len() > inner.limit {
            let path = Arc::clone(&inner.paths.path);
            return Err(Error::TooLarge { path, bytes: payload.len(), limit: inner.limit });
        }
        Ok(payload)
    }

    /// Hands a node over, in the order of the calls.
    async fn order(&self, payload: Vec<u8>) -> Result<Enqueued, Error> {
        let mut closed = self.inner.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(self.inner.in_flight.closed()),
            ordered = self.order_in_turn(payload) => ordered,
        }
    }

    async fn order_in_turn(&self, payload: Vec<u8>) -> Result<Enqueued, Error> {
        let inner = &*self.inner;
        // The first one polled is first, also if its task has used up its turn and must let others run.
        let mut capacity = tokio::task::unconstrained(inner.capacity.lock()).await;
        // A loop over puts that never wait must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let bytes = u32::try_from((payload.len() + NODE_BYTES).min(WINDOW_BYTES)).unwrap_or(u32::MAX);
        let window = Arc::clone(&inner.window).acquire_many_owned(bytes).await;
        let window = window.map_err(|_| inner.in_flight.closed())?;
        capacity.take(inner.client.core(), &inner.paths, &inner.in_flight).await?;
        let (put, outcome) = Put::new(payload, &inner.in_flight, window);
        inner.commands.send(Command::Put(put)).map_err(|_| inner.in_flight.closed())?;
        Ok(Enqueued { outcome, in_flight: Arc::clone(&inner.in_flight) })
    }

    /// What a put that was enqueued in time says, and not confirmed.
    fn not_confirmed(&self, timeout: Duration) -> Error {
        let message = format!("put into {}: not confirmed within {timeout:?}; it goes on", self.path());
        Error::client(&self.inner.paths.path, client::Error::new(ErrorKind::OutcomeUnknown, message))
    }

    /// What a put that was not begun in time says.
    fn not_begun(&self, timeout: Duration) -> Error {
        let path = &self.inner.paths.path;
        match self.inner.max_items {
            Some(limit) if self.inner.full.load(Ordering::Acquire) => Error::Full { path: Arc::clone(path), limit },
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
    in_flight: Arc<InFlight>,
}

impl Future for Enqueued {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The task is gone with its runtime only.
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        Poll::Ready(outcome.unwrap_or_else(|_| Err(self.in_flight.closed())))
    }
}

impl Drop for Enqueued {
    fn drop(&mut self) {
        // Told, and never heard.
        if let Ok(Err(unnoticed)) = self.outcome.try_recv() {
            self.in_flight.note_failure(unnoticed);
        }
    }
}
