//! Consuming with a handler.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::Fuse;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::Consumer;
use super::delivery::Delivery;
use super::handle::ClaimHandle;
use super::settle::Verdict;
use crate::client::listener::{caught, panic_text};
use crate::queue::error::Error;
use crate::queue::events::Event;
use crate::queue::serializer::{BoxError, Serializer};

/// So many handlers run at once in one call, at most.
const MOST_AT_ONCE: usize = 100_000;
/// The delay before an item is claimed again whose own policy panicked.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// What handles items. Closures `Fn(T, ClaimHandle) -> Future` are handlers too, whose future returns a result with any
/// error.
pub trait QueueHandler<T>: Send + Sync {
    /// Handles one item. Its future is dropped at the await it is in when the claim is lost. An error (or a panic)
    /// means that this delivery failed; a [`Failure::permanent`] that another one would fail too.
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

/// When [`consume`](Consumer::consume) acknowledges an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum AckMode {
    /// After it was handled: at least once. What a consumer had in hand when it crashed is delivered again.
    #[default]
    AfterHandling,
    /// Before it is handled: at most once. What a consumer had in hand when it crashed or its future was dropped, or
    /// what a handler fails at, is lost; the latter is told by [`Event::Dropped`]. The claim that a handler is given is
    /// settled by then: it is not held, and its [`run`](ClaimHandle::run) and its fence are of no use. No failure makes
    /// a dead letter or a delay.
    BeforeHandling,
}

/// An error of a [handler](QueueHandler) that says whether another delivery makes sense.
///
/// ```no_run
/// use zookeeper_recipes::queue::{BoxError, ClaimHandle, Consumer, Failure, Utf8};
///
/// # fn example(consumer: Consumer<Utf8>) {
/// let ship = |parcel: String, _: ClaimHandle| async move {
///     if parcel.is_empty() {
///         // It will be empty the next time too: a dead letter.
///         return Err(Failure::permanent("there is no address").into());
///     }
///     std::fs::write("shipped", parcel)?; // an error may pass: it is delivered again
///     Ok::<(), BoxError>(())
/// };
/// tokio::spawn(async move { consumer.consume(4, ship).await });
/// # }
/// ```
#[derive(Debug)]
pub struct Failure(BoxError);

impl Failure {
    /// No delivery of this item will ever succeed: it becomes a dead letter at once. Also as the source of another
    /// error; but return it as it is rather than inside a type that hides its sources.
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

/// What a handler said of the items of a delivery.
enum Handled {
    Done,
    /// Another delivery may succeed.
    Failed(String),
    /// None will.
    Permanently(String),
    Lost,
}

impl<S: Serializer> Consumer<S> {
    /// Hands items to `handler`, up to `concurrency` nodes at a time, in the order of the queue. An item that was
    /// handled is taken out of the queue, in one flight with the claim of the next. One that failed is returned to its
    /// place, and is tried again here after [a delay](crate::queue::DistributedQueueBuilder::retry_delay) (elsewhere at
    /// once), or becomes a dead letter: after [the last
    /// delivery](crate::queue::DistributedQueueBuilder::max_deliveries), when the policy of the delay gives up, or for
    /// a [`Failure::permanent`], with the error for a reason. One whose claim was lost comes again. Items that were put
    /// as one are handled one after the other, and fail together with the first that fails.
    ///
    /// The handlers run inside this future, not on tasks of their own. While they run, the claim is judged by the clock
    /// and the session; call [`ClaimHandle::run`] inside a handler to be told of a claim that was deleted by hand as
    /// well.
    ///
    /// To end it, [`close`](Self::close) the consumer: this returns after the handlers that were running. Or use
    /// [`consume_until`](Self::consume_until).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a `concurrency` of 0 or more than 100 000. As [`take`](Self::take), but for [`Error::Closed`]: it ends
    /// then, after the handlers that were running; what could pass may be tried again by another call.
    ///
    /// # Cancel safety
    /// Dropping it drops the handlers that run; their items are returned to the queue, unless they were
    /// [acknowledged before](AckMode::BeforeHandling): those are lost. These deliveries count.
    pub fn consume(
        &self,
        concurrency: usize,
        handler: impl QueueHandler<S::Item>,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        // Of an `async fn` the compiler cannot tell for every handler that its future is `Send`.
        self.consume_until(concurrency, handler, std::future::pending())
    }

    /// As [`consume`](Self::consume), until `shutdown` resolves. Then no handler is begun any more, and those that run
    /// may finish for up to [the grace period](crate::queue::DistributedQueueBuilder::grace_period); those that do not
    /// are dropped, and their items returned, unless they were [acknowledged before](AckMode::BeforeHandling).
    ///
    /// The consumer itself goes on, and claims ahead if it was told to
    /// [prefetch](crate::queue::DistributedQueueBuilder::prefetch). At the end of a process [`close`](Self::close) it
    /// afterwards: that returns what was claimed, and waits until all is settled.
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
                () = &mut shutdown => {
                    stop.send_replace(true);
                    grace.set(tokio::time::sleep(self.inner.options.grace).fuse());
                }
                () = &mut grace => break,
                Some(slot) = slots.next() => match slot {
                    // The settlement and the claim of the next item leave together.
                    Ok(Some(settled)) => {
                        settling.push(settled);
                        slots.push(self.slot(&handler, stop.subscribe()));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        stop.send_replace(true);
                        match ended {
                            Ok(()) => ended = Err(error),
                            Err(_) => self.inner.shared.events.tell(Event::Failed { error }),
                        }
                    }
                },
                Some(()) = settling.next() => {}
            }
        }
        ended
    }

    /// Takes an item and handles it; the future that is returned waits for its settlement. None when it is told to
    /// stop, or the consumer is closed.
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
        match self.inner.options.ack_mode {
            AckMode::AfterHandling => Ok(Some(self.handle_then_ack(handler, delivery).await.left_future())),
            AckMode::BeforeHandling => {
                self.ack_then_handle(handler, delivery).await;
                Ok(Some(std::future::ready(()).right_future()))
            }
        }
    }

    /// Handles what was delivered, and hands over what came of it; the future waits for the settlement.
    async fn handle_then_ack<H: QueueHandler<S::Item>>(
        &self,
        handler: &H,
        mut delivery: Delivery<S::Item>,
    ) -> impl Future<Output = ()> + Send + use<S, H> {
        let claim = delivery.claim();
        let items = delivery.take_items();
        let handled = claim.run_unwatched(handle_all(handler, items, &claim)).await.unwrap_or(Handled::Lost);
        let is_lost = matches!(handled, Handled::Lost);
        let settled = delivery.settle(self.verdict(&claim, handled));
        let (name, events) = (claim.name().to_owned(), self.inner.shared.events.clone());
        async move {
            if let Err(error) = settled.await
                && !(is_lost && error.is_lost())
            {
                // What is lost cannot be settled, and comes again; everything else is told.
                events.tell(Event::Unsettled { item: name, error });
            }
        }
    }

    async fn ack_then_handle(&self, handler: &impl QueueHandler<S::Item>, delivery: Delivery<S::Item>) {
        let claim = delivery.claim();
        let item = claim.name().to_owned();
        let event = match delivery.ack().await {
            Ok(items) => match handle_all(handler, items, &claim).await {
                Handled::Done => return,
                Handled::Failed(reason) | Handled::Permanently(reason) => Event::Dropped { item, reason },
                Handled::Lost => return,
            },
            Err(error) => Event::Unsettled { item, error },
        };
        self.inner.shared.events.tell(event);
    }

    /// What becomes of an item, after what its handler said.
    fn verdict(&self, claim: &ClaimHandle, handled: Handled) -> Verdict {
        let reason = match handled {
            Handled::Done => return Verdict::Ack,
            Handled::Lost => return Verdict::RELEASE,
            Handled::Permanently(reason) => return Verdict::rejected(claim.claim(), reason),
            Handled::Failed(reason) => reason,
        };
        let (name, attempt) = (claim.name(), claim.attempt());
        tracing::warn!(item = name, attempt, reason, "an item failed");
        let jitter = self.inner.shared.core.random.unit();
        let policy = &self.inner.options.retry_delay;
        let delay =
            caught(|| policy.delay(attempt.saturating_sub(1), Duration::ZERO, jitter)).unwrap_or_else(|panic| {
                tracing::warn!(item = name, panic, "the policy of the retry delay panicked");
                Some(AFTER_PANIC)
            });
        match delay {
            Some(after) => Verdict::failed(claim.claim(), after, reason),
            None => Verdict::rejected(claim.claim(), reason),
        }
    }
}

/// One after the other, up to the first that fails.
async fn handle_all<T>(handler: &impl QueueHandler<T>, items: Vec<T>, claim: &ClaimHandle) -> Handled {
    let work = async {
        for item in items {
            handler.handle(item, claim.clone()).await?;
        }
        Ok::<(), BoxError>(())
    };
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(())) => Handled::Done,
        Ok(Err(error)) if is_permanent(&*error) => Handled::Permanently(text(error)),
        Ok(Err(error)) => Handled::Failed(text(error)),
        Err(panic) => Handled::Failed(format!("the handler panicked: {}", panic_text(panic))),
    }
}

/// Whether the error, or one of its sources, is a [`Failure::permanent`].
fn is_permanent(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<Failure>)
}

/// What an error and its sources say. It is the handler's own code that says so, and may panic too.
fn text(error: BoxError) -> String {
    let all = move || {
        let mut text = error.to_string();
        for source in std::iter::successors(error.source(), |error| error.source()) {
            let source = source.to_string();
            // Some errors say what their source says.
            if !text.ends_with(&source) {
                text = format!("{text}: {source}");
            }
        }
        text
    };
    caught(all).unwrap_or_else(|panic| format!("the handler's error panicked when it was asked: {panic}"))
}
