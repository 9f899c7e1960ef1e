//! A claimed item, as a consumer delivers it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::claim::Claim;
use super::handle::{ClaimHandle, ClaimLost};
use super::outcome::{Notice, Settlement};
use super::settle::{Unsettled, Verdict};
use crate::client::Fence;
use crate::queue::error::Error;
use crate::queue::history::LONGEST_DELAY;

/// A claimed item, which no other consumer gets while the claim is held. [`ack`](Self::ack) removes it from the queue.
/// If the delivery is dropped before it was settled, the item is returned to its place in the background, as by
/// [`release`](Self::release), or as by [`nack`](Self::nack) if the thread is panicking. If the runtime of the client
/// has ended by then, other consumers get the item when the session ends.
///
/// ```no_run
/// use zookeeper_recipes::queue::{Consumer, Error, Utf8};
///
/// # async fn ship(order: &str) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn example(consumer: Consumer<Utf8>) -> Result<(), Error> {
/// let delivery = consumer.take().await?;
/// // Dropped at the next await that waits, once the claim is lost.
/// let shipped = delivery.run(ship(delivery.item())).await;
/// match shipped {
///     Ok(Ok(())) => {
///         delivery.ack().await?;
///     }
///     Ok(Err(_)) => delivery.nack().await?, // it is redelivered
///     Err(_lost) => drop(delivery),
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "an item that is dropped is returned to the queue"]
pub struct Delivery<T> {
    items: Vec<T>,
    claim: ClaimHandle,
    commands: mpsc::UnboundedSender<Command>,
    settled: bool,
    span: tracing::Span,
}

/// A command to the task of a consumer.
#[derive(Debug)]
pub(super) enum Command {
    /// Settle a claim.
    Settle { claim: Arc<Claim>, verdict: Verdict, notice: Notice },
    /// Claim no more items. Answered when all items that no caller has taken are returned.
    Close(Option<oneshot::Sender<()>>),
}

impl<T> Delivery<T> {
    pub(super) fn new(items: Vec<T>, claim: ClaimHandle, commands: mpsc::UnboundedSender<Command>) -> Self {
        let path = claim.claim().path();
        let (item, attempt, outcome) = (claim.name(), claim.attempt(), tracing::field::Empty);
        let span = tracing::info_span!("delivery", path, item, attempt, outcome);
        Delivery { items, claim, commands, settled: false, span }
    }

    /// Returns the item, or the first one if several were [put as one node](super::super::Producer::put_many). An
    /// [`ack`](Self::ack) removes all of them from the queue and returns them. So handle all [`items`](Self::items).
    pub fn item(&self) -> &T {
        // A node without items is never delivered.
        &self.items[0]
    }

    /// Returns all items that were put as one node; there is at least one.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the name of the item's node, as [`ClaimHandle::name`].
    pub fn name(&self) -> &str {
        self.claim.name()
    }

    /// Returns the number of this delivery, as [`ClaimHandle::attempt`].
    pub fn attempt(&self) -> u32 {
        self.claim.attempt()
    }

    /// Returns whether the claim is held, as [`ClaimHandle::is_held`].
    pub fn is_held(&self) -> bool {
        self.claim.is_held()
    }

    /// Resolves when the claim is lost, as [`ClaimHandle::lost`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.claim.lost().await;
    }

    /// Runs `work` while the claim is held, as [`ClaimHandle::run`].
    ///
    /// # Errors
    /// [`ClaimLost`] if the claim was lost first.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, ClaimLost> {
        self.claim.run(work).await
    }

    /// Returns a fence for transactions, as [`ClaimHandle::fence`].
    pub fn fence(&self) -> Fence {
        self.claim.fence()
    }

    /// Returns the fencing token, as [`ClaimHandle::fencing_token`].
    pub fn fencing_token(&self) -> i64 {
        self.claim.fencing_token()
    }

    /// Returns the span of this delivery, for [`Instrument`](tracing::Instrument) or for the spans that follow from it.
    /// It is a child of the span in which the item was taken. The handlers of
    /// [`consume`](crate::queue::Consumer::consume) run in it.
    pub fn span(&self) -> &tracing::Span {
        &self.span
    }

    /// Returns a handle to the claim, for other tasks. Only the delivery can settle it.
    pub fn claim(&self) -> ClaimHandle {
        self.claim.clone()
    }

    /// Acknowledges the item: removes it from the queue. Then returns it, together with all items of the same node. To
    /// deliver at most once, call this first and then work on the returned items. The ensemble decides in one
    /// transaction, by the claim alone, whatever [`is_held`](Self::is_held) returned before.
    ///
    /// # Errors
    /// [`Error::Lost`] if the claim was lost, or [`ErrorKind::SessionLost`](crate::ErrorKind::SessionLost) if the
    /// session was: the item is redelivered, unless it was deleted by hand.
    /// [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if the session ended before the answer came.
    /// With any other error the item is returned to the queue, and this consumer does not claim it for 30 s.
    ///
    /// If an answer is lost and the item does not exist any more, the item counts as acknowledged. This case cannot be
    /// distinguished from a deletion of the item by hand, nor from a deletion of the claim by hand after which another
    /// consumer acknowledged the item.
    ///
    /// # Cancel safety
    /// Once polled, the item is acknowledged in the background even if the future is dropped.
    pub async fn ack(mut self) -> Result<Vec<T>, Error> {
        let settled = self.settle(Verdict::Ack);
        let items = self.take_items();
        settled.await.map(|()| items)
    }

    /// Reports that this delivery failed: returns the item to its place, under its name. After [the last
    /// delivery](crate::queue::DistributedQueueBuilder::max_deliveries) the item becomes a dead letter instead.
    /// Resolves when that is done.
    ///
    /// # Errors
    /// As [`nack_after`](Self::nack_after) without a delay.
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn nack(self) -> Result<(), Error> {
        self.nack_after(Duration::ZERO).await
    }

    /// Reports a failure as [`nack`](Self::nack) does. In addition, no consumer claims the item again before `delay` is
    /// over. The time is in the item's data, so that it does not depend on this consumer; see [items that
    /// fail](crate::queue#items-that-fail).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a delay of more than 30 days; the item is returned as after a drop. Otherwise as
    /// [`ack`](Self::ack), but after any other error this consumer does not claim the item for `delay` instead of 30 s.
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn nack_after(mut self, delay: Duration) -> Result<(), Error> {
        if delay > LONGEST_DELAY {
            let why = format!("a delay of {delay:?}; at most 30 days are allowed");
            return Err(Error::InvalidOption { path: self.claim.claim().path().into(), why });
        }
        let verdict = Verdict::failed(self.claim.claim(), delay, "it was not acknowledged (nack)".into());
        self.settle(verdict).await
    }

    /// Returns the unhandled item to its place, under its name. This delivery does not count towards
    /// [`max_deliveries`](crate::queue::DistributedQueueBuilder::max_deliveries). Resolves when the item is returned.
    ///
    /// # Errors
    /// As [`nack`](Self::nack).
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn release(mut self) -> Result<(), Error> {
        self.settle(Verdict::RELEASE).await
    }

    /// Makes the item a dead letter, with a reason in plain text.
    ///
    /// # Errors
    /// As [`ack`](Self::ack). An item that was deleted by hand does not become a dead letter.
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn reject(mut self, reason: impl Into<String> + Send) -> Result<(), Error> {
        let verdict = Verdict::rejected(self.claim.claim(), reason.into());
        self.settle(verdict).await
    }

    /// Takes the items, for a handler.
    pub(super) fn take_items(&mut self) -> Vec<T> {
        std::mem::take(&mut self.items)
    }

    /// Sends the verdict to the task, and returns a future of the outcome.
    pub(super) fn settle(&mut self, verdict: Verdict) -> Settlement {
        let (done, settlement) = Settlement::new(self.claim.claim(), verdict.returns());
        self.hand_over(verdict, Some(done));
        settlement
    }

    fn hand_over(&mut self, verdict: Verdict, done: Option<oneshot::Sender<Result<(), Unsettled>>>) {
        self.settled = true;
        let claim = Arc::clone(self.claim.claim());
        claim.end();
        let notice = Notice { done, span: Some(self.span.clone()) };
        // The task is missing only if its runtime has ended.
        let _ = self.commands.send(Command::Settle { claim, verdict, notice });
    }
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        if !self.settled {
            let claim = self.claim.claim();
            let failed = || Verdict::failed(claim, Duration::ZERO, "the thread that handled it panicked".into());
            let verdict = if std::thread::panicking() { failed() } else { Verdict::RELEASE };
            self.hand_over(verdict, None);
        }
    }
}

impl<T> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("claim", &self.claim).finish_non_exhaustive()
    }
}
