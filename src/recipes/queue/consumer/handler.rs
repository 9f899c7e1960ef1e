//! Consuming with a handler.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::Fuse;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::Sleep;
use tracing::Instrument;

use super::Consumer;
use super::delivery::Delivery;
use super::handle::ClaimHandle;
use super::running::Running;
use super::settle::Verdict;
use crate::queue::error::Error;
use crate::queue::events::Event;
use crate::queue::history::LONGEST_DELAY;
use crate::util::panic::{caught, panic_text};
use crate::util::serializer::{BoxError, Serializer};
use crate::util::wait::forever;

/// The most handlers that run concurrently in one call.
const MOST_AT_ONCE: usize = 100_000;
/// The delay before an item is claimed again if the retry policy panicked.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Handles the items of a queue; see [`Consumer::consume`]. A closure `Fn(T, ClaimHandle) -> Future` is a handler too,
/// if its future returns a `Result<(), E>` with any error. So is a handler in an [`Arc`], which several consumers can
/// share. To choose a handler at run time, box a closure: a `Box<dyn Fn(T, ClaimHandle) -> BoxFuture<'static,
/// Result<(), BoxError>> + Send + Sync>` is a closure too.
///
/// ```no_run
/// use zookeeper_recipes::queue::{
///     BoxError, ClaimHandle, Consumer, QueueHandler, Utf8,
/// };
///
/// struct Shipping;
///
/// impl QueueHandler<String> for Shipping {
///     async fn handle(
///         &self,
///         order: String,
///         claim: ClaimHandle,
///     ) -> Result<(), BoxError> {
///         println!("{order}, attempt {}", claim.attempt());
///         Ok(())
///     }
/// }
///
/// # fn example(consumer: Consumer<Utf8>) {
/// tokio::spawn(async move { consumer.consume(4, Shipping).await });
/// # }
/// ```
#[doc(alias = "QueueConsumer")]
pub trait QueueHandler<T>: Send + Sync {
    /// Handles one item. If the claim is lost, the future is dropped before it is polled again. An error (or a panic)
    /// means that this delivery failed; a [`Failure::permanent`] means that another delivery would fail too.
    #[doc(alias = "consumeMessage")]
    fn handle(&self, item: T, claim: ClaimHandle) -> impl Future<Output = Result<(), BoxError>> + Send;
}

impl<T, F, Fut, E> QueueHandler<T> for F
where
    T: Send,
    F: Fn(T, ClaimHandle) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), E>> + Send,
    E: Into<BoxError>,
{
    async fn handle(&self, item: T, claim: ClaimHandle) -> Result<(), BoxError> {
        self(item, claim).await.map_err(Into::into)
    }
}

impl<T, H: QueueHandler<T> + ?Sized> QueueHandler<T> for Arc<H> {
    fn handle(&self, item: T, claim: ClaimHandle) -> impl Future<Output = Result<(), BoxError>> + Send {
        (**self).handle(item, claim)
    }
}

/// A permanent error of a [handler](QueueHandler): another delivery of the item would fail too.
///
/// ```no_run
/// use zookeeper_recipes::queue::{BoxError, ClaimHandle, Consumer, Failure, Utf8};
///
/// # fn example(consumer: Consumer<Utf8>) {
/// let ship = |parcel: String, _: ClaimHandle| async move {
///     if parcel.is_empty() {
///         // It would fail again: it becomes a dead letter.
///         return Err(Failure::permanent("there is no address").into());
///     }
///     // Another error may be temporary: the item is redelivered.
///     std::fs::write("shipped", parcel)?;
///     Ok::<(), BoxError>(())
/// };
/// tokio::spawn(async move { consumer.consume(4, ship).await });
/// # }
/// ```
#[derive(Debug)]
pub struct Failure(BoxError);

impl Failure {
    /// Creates an error for an item that no delivery can handle: the item becomes a dead letter at once. It also works
    /// as the source of another error. Do not wrap it in a type that hides its sources.
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Failure(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// The result of handling the items of a delivery.
enum Handled {
    Done,
    /// Another delivery may succeed.
    Failed(String),
    /// No other delivery will succeed.
    Permanently(String),
    Lost,
}

impl<S: Serializer> Consumer<S> {
    /// Passes items to `handler`, up to `concurrency` nodes at a time, in the order of the queue.
    ///
    /// An item that was handled is removed from the queue; that request is sent together with the claim of the next
    /// item. An item that failed is returned to its place, and is delivered again after [a
    /// delay](crate::queue::DistributedQueueBuilder::retry_delay). It becomes a dead letter, with the error as the
    /// reason, after [the last
    /// delivery](crate::queue::DistributedQueueBuilder::max_deliveries), when the policy of the delay gives up, or for
    /// a [`Failure::permanent`]. An item whose claim was lost is redelivered. Items that were put as one node are
    /// handled one after the other, and fail together with the first that fails.
    ///
    /// The handlers run inside this future, not on separate tasks; for those, see [`Spawned`](super::Spawned). While a
    /// handler runs, only the clock and the session decide whether its claim is held. To notice a claim that was
    /// deleted by hand as well, call [`ClaimHandle::run`] inside the handler.
    ///
    /// To stop it, [`close`](Self::close) the consumer: this future resolves after the running handlers have finished.
    /// Or use [`consume_until`](Self::consume_until).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a `concurrency` of 0 or more than 100 000. Otherwise as [`take`](Self::take), after
    /// the running handlers have finished, or [the grace period](crate::queue::DistributedQueueBuilder::grace_period)
    /// is over; if the error is temporary, another call may succeed. Instead of [`Error::Closed`] the call returns
    /// `Ok`.
    ///
    /// # Cancel safety
    /// Dropping it drops the running handlers. Their items are returned to the queue, and these deliveries do not
    /// count.
    pub fn consume(
        &self,
        concurrency: usize,
        handler: impl QueueHandler<S::Item>,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        // For an `async fn` the compiler cannot prove for every handler that its future is `Send`.
        self.consume_until(concurrency, handler, forever())
    }

    /// Consumes as [`consume`](Self::consume) does, until `shutdown` resolves. Then it starts no more handlers, and
    /// lets the running ones finish for up to [the grace period](crate::queue::DistributedQueueBuilder::grace_period).
    /// After that it drops them and returns their items.
    ///
    /// The consumer itself stays open, and still claims items in advance if
    /// [prefetch](crate::queue::DistributedQueueBuilder::prefetch) is set. At the end of a process,
    /// [`close`](Self::close) it afterwards: that returns all claimed items, and waits until all are settled.
    ///
    /// # Errors
    /// As [`consume`](Self::consume).
    ///
    /// # Cancel safety
    /// As [`consume`](Self::consume).
    pub fn consume_until(
        &self,
        concurrency: usize,
        handler: impl QueueHandler<S::Item>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        self.handle_until(concurrency, handler, shutdown)
    }

    async fn handle_until(
        &self,
        concurrency: usize,
        handler: impl QueueHandler<S::Item>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        if !(1..=MOST_AT_ONCE).contains(&concurrency) {
            let why = format!("a concurrency of {concurrency}; from 1 to {MOST_AT_ONCE} is allowed");
            return Err(Error::InvalidOption { path: self.path().into(), why });
        }
        let stop = watch::Sender::new(false);
        let mut slots: FuturesUnordered<_> = (0..concurrency).map(|_| self.slot(&handler, stop.subscribe())).collect();
        let mut settling = FuturesUnordered::new();
        let mut shutdown = std::pin::pin!(shutdown.fuse());
        let mut grace = std::pin::pin!(Fuse::terminated());
        let mut ended = Ok(());
        while !(slots.is_empty() && settling.is_empty()) {
            tokio::select! {
                biased;
                () = &mut shutdown => self.stop(&stop, grace.as_mut()),
                () = &mut grace => break,
                Some(slot) = slots.next() => match slot {
                    // The settlement is sent together with the claim of the next item.
                    Ok(Some(settled)) => {
                        settling.push(settled);
                        slots.push(self.slot(&handler, stop.subscribe()));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        self.stop(&stop, grace.as_mut());
                        match ended {
                            Ok(()) => ended = Err(error),
                            Err(_) => self.inner.shared.events.publish(Event::Failed { error }),
                        }
                    }
                },
                Some(()) = settling.next() => {}
            }
        }
        ended
    }

    /// Stops all slots from taking another item. Starts the grace period of the running handlers, unless it has begun.
    fn stop(&self, stop: &watch::Sender<bool>, mut grace: Pin<&mut Fuse<Sleep>>) {
        if !stop.send_replace(true) {
            grace.set(tokio::time::sleep(self.inner.options.grace).fuse());
        }
    }

    /// Takes an item and handles it. Returns a future that waits for its settlement, or `None` if `stop` is set or the
    /// consumer is closed.
    async fn slot<H: QueueHandler<S::Item>>(
        &self,
        handler: &H,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Option<impl Future<Output = ()> + Send + use<S, H>>, Error> {
        let taken = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
            taken = self.take() => taken,
        };
        let delivery = match taken {
            Ok(delivery) => delivery,
            Err(Error::Closed { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(self.handle_then_settle(handler, delivery).await))
    }

    /// Handles a delivery and requests its settlement. The returned future waits for the settlement.
    async fn handle_then_settle<H: QueueHandler<S::Item>>(
        &self,
        handler: &H,
        mut delivery: Delivery<S::Item>,
    ) -> impl Future<Output = ()> + Send + use<S, H> {
        let claim = delivery.claim();
        let items = delivery.take_items();
        let work = self.handle_all(handler, items, &claim).instrument(delivery.span().clone());
        let handled = claim.run_unwatched(work).await.unwrap_or(Handled::Lost);
        let is_lost = matches!(handled, Handled::Lost);
        let settled = delivery.settle(self.verdict(&claim, handled));
        let (name, events) = (claim.name().to_owned(), self.inner.shared.events.clone());
        async move {
            if let Err(error) = settled.await
                && !(is_lost && error.is_lost())
            {
                // A lost claim cannot be settled, and its item is redelivered. Every other error is reported.
                events.publish(Event::Unsettled { item: name, error });
            }
        }
    }

    /// Handles the items one after the other, up to the first that fails.
    async fn handle_all(
        &self,
        handler: &impl QueueHandler<S::Item>,
        items: Vec<S::Item>,
        claim: &ClaimHandle,
    ) -> Handled {
        let running = Running::new(&self.inner.shared.events, claim);
        let work = async {
            for item in items {
                handler.handle(item, claim.clone()).await?;
            }
            Ok::<(), BoxError>(())
        };
        let done = AssertUnwindSafe(work).catch_unwind().await;
        running.finished();
        match done {
            Ok(Ok(())) => Handled::Done,
            // The error's own `source` may panic.
            Ok(Err(error)) => match caught(|| is_permanent(&*error)) {
                Ok(true) => Handled::Permanently(text(error)),
                _ => Handled::Failed(text(error)),
            },
            Err(panic) => Handled::Failed(format!("the handler panicked: {}", panic_text(panic))),
        }
    }

    /// Returns what to do with an item after its handler had this result.
    fn verdict(&self, claim: &ClaimHandle, handled: Handled) -> Verdict {
        let reason = match handled {
            Handled::Done => return Verdict::Ack,
            Handled::Lost => return Verdict::RELEASE,
            Handled::Permanently(reason) => return Verdict::rejected(claim.claim(), reason),
            Handled::Failed(reason) => reason,
        };
        let (name, attempt) = (claim.name(), claim.attempt());
        let path = &*self.inner.shared.paths.path;
        tracing::warn!(event = "item_failed", path, item = name, attempt, reason, "an item failed");
        let jitter = self.inner.shared.core.random.unit();
        let policy = &self.inner.options.retry_delay;
        let delay =
            caught(|| policy.delay(attempt.saturating_sub(1), Duration::ZERO, jitter)).unwrap_or_else(|panic| {
                tracing::warn!(
                    event = "retry_delay_panicked",
                    path,
                    item = name,
                    panic,
                    "the policy of the retry delay panicked"
                );
                Some(AFTER_PANIC)
            });
        match delay {
            Some(after) => Verdict::failed(claim.claim(), after.min(LONGEST_DELAY), reason),
            None => Verdict::rejected(claim.claim(), reason),
        }
    }
}

/// Returns whether the error, or one of its sources, is a [`Failure::permanent`].
fn is_permanent(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<Failure>)
}

/// Returns the messages of an error and its sources. They come from the caller's code, which may panic.
fn text(error: BoxError) -> String {
    let all = move || {
        let mut text = error.to_string();
        for source in std::iter::successors(error.source(), |error| error.source()) {
            let source = source.to_string();
            // Some errors repeat the message of their source.
            if !text.ends_with(&source) {
                text = format!("{text}: {source}");
            }
        }
        text
    };
    caught(all).unwrap_or_else(|panic| format!("the handler's error panicked when its message was read: {panic}"))
}
