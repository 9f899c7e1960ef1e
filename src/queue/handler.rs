//! Consuming with a handler.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};

use super::consumer::Consumer;
use super::delivery::{ClaimHandle, ClaimLost, Delivery};
use super::error::Error;
use super::serializer::{BoxError, Serializer};
use crate::client::listener::{caught, panic_text};

/// Delays before an item that failed is tried again here, each twice the one before, up to the second figure.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// What handles items. Closures `Fn(T, ClaimHandle) -> Future` are handlers too, whose future returns a result with any error.
pub trait QueueHandler<T>: Send + Sync {
    /// Handles one item. Its future is dropped at the await it is in when the claim is lost. An error (or a panic) means that
    /// the attempt failed.
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

impl<S: Serializer> Consumer<S> {
    /// Hands items to `handler`, up to `concurrency` nodes at a time, in the order of the queue. An item that was handled is
    /// taken out of the queue. One that failed goes back to its place, and is tried again here after 0.1 s, 0.2 s and so on up to
    /// 30 s (elsewhere at once), or goes to the dead letters after
    /// [the last attempt](super::DistributedQueueBuilder::max_attempts), with the error for a reason. One whose claim was lost
    /// comes again, and that is no failed attempt. Items that were put as one are handled one after the other, and fail together
    /// with the first that fails.
    ///
    /// The handler runs inside this future, not on a task of its own. To end it, [`close`](Self::close) the consumer: this
    /// returns after the handlers that were running.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a `concurrency` of 0. As [`take`](Self::take), but for [`Error::Closed`]: it ends then,
    /// after the handlers that were running; what could pass may be tried again by another call.
    ///
    /// # Cancel safety
    /// Dropping it drops the handlers that run; their items go back into the queue, as failed attempts.
    pub async fn consume(&self, concurrency: usize, handler: impl QueueHandler<S::Item>) -> Result<(), Error> {
        if concurrency == 0 {
            let why = "a concurrency of 0: nothing would be handled; at least 1 is needed".into();
            return Err(Error::InvalidOption { path: self.path().into(), why });
        }
        let mut running = FuturesUnordered::new();
        let ended = loop {
            tokio::select! {
                biased;
                Some(()) = running.next() => {}
                taken = self.take(), if running.len() < concurrency => match taken {
                    Ok(delivery) => running.push(attempt(&handler, delivery)),
                    Err(Error::Closed { .. }) => break Ok(()),
                    Err(error) => break Err(error),
                },
            }
        };
        while running.next().await.is_some() {}
        ended
    }
}

/// Handles what was delivered, and settles it.
async fn attempt<T>(handler: &impl QueueHandler<T>, mut delivery: Delivery<T>) {
    let claim = delivery.claim();
    let items = delivery.take_items();
    let work = async {
        for item in items {
            handler.handle(item, claim.clone()).await?;
        }
        Ok::<(), BoxError>(())
    };
    let outcome = claim.run(AssertUnwindSafe(work).catch_unwind()).await;
    let name = claim.name();
    let settled = match outcome {
        Ok(Ok(Ok(()))) => delivery.ack().await,
        Ok(Ok(Err(error))) => again(delivery, &claim, text(error)).await,
        Ok(Err(panic)) => again(delivery, &claim, format!("the handler panicked: {}", panic_text(panic))).await,
        // That says nothing about the item: no attempt counts.
        Err(ClaimLost) => {
            drop(delivery);
            Ok(())
        }
    };
    // It comes again, or goes on in the background; there is nobody to be told.
    if let Err(error) = settled {
        tracing::warn!(item = name, %error, kind = ?error.kind(), "an item could not be settled");
    }
}

/// What an error says. It is the handler's own code that says so, and may panic too.
fn text(error: BoxError) -> String {
    caught(move || error.to_string())
        .unwrap_or_else(|panic| format!("the handler's error panicked when it was asked: {panic}"))
}

async fn again<T>(delivery: Delivery<T>, claim: &ClaimHandle, reason: String) -> Result<(), Error> {
    let attempt = claim.attempt();
    tracing::warn!(item = claim.name(), attempt, reason, "an item failed");
    let (first, most) = AFTER_FAILURE;
    let delay = first.saturating_mul(1 << (attempt - 1).min(16)).min(most);
    delivery.failed(delay, reason).await
}
