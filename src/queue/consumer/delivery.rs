//! An item in the hands of a consumer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::claim::Claim;
use super::handle::{ClaimHandle, ClaimLost};
use super::outcome::Settlement;
use super::settle::{Unsettled, Verdict};
use crate::client::Fence;
use crate::queue::error::Error;

/// An item, claimed for as long as this exists: no other consumer gets it. [`ack`](Self::ack) takes it out of the
/// queue. Dropped without, it is returned to its place, as by [`release`](Self::release), in the background. If the
/// runtime that keeps the session is gone by then, others get it when the session ends.
#[must_use = "an item that is dropped is returned to the queue"]
pub struct Delivery<T> {
    items: Vec<T>,
    claim: ClaimHandle,
    commands: mpsc::UnboundedSender<Command>,
    settled: bool,
}

/// What a consumer's task is told.
#[derive(Debug)]
pub(super) enum Command {
    /// The item of a claim was handled, or not.
    Settle { claim: Arc<Claim>, verdict: Verdict, done: Option<oneshot::Sender<Result<(), Unsettled>>> },
    /// No more items are to be claimed. To be answered when nothing is claimed without a taker.
    Close(Option<oneshot::Sender<()>>),
}

impl<T> Delivery<T> {
    pub(super) fn new(items: Vec<T>, claim: ClaimHandle, commands: mpsc::UnboundedSender<Command>) -> Self {
        Delivery { items, claim, commands, settled: false }
    }

    /// The item; the first one, if it was [put with others as one](super::super::Producer::put_many). An
    /// [`ack`](Self::ack) takes all of them out of the queue, and returns them: handle all [`items`](Self::items).
    pub fn item(&self) -> &T {
        // A node without items is never delivered.
        &self.items[0]
    }

    /// All items that were put as one; there is at least one.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// As [`ClaimHandle::name`].
    pub fn name(&self) -> &str {
        self.claim.name()
    }

    /// As [`ClaimHandle::attempt`].
    pub fn attempt(&self) -> u32 {
        self.claim.attempt()
    }

    /// As [`ClaimHandle::is_held`].
    pub fn is_held(&self) -> bool {
        self.claim.is_held()
    }

    /// As [`ClaimHandle::lost`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.claim.lost().await;
    }

    /// As [`ClaimHandle::run`].
    ///
    /// # Errors
    /// [`ClaimLost`] if the claim was lost first.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, ClaimLost> {
        self.claim.run(work).await
    }

    /// As [`ClaimHandle::fence`].
    pub fn fence(&self) -> Fence {
        self.claim.fence()
    }

    /// As [`ClaimHandle::fencing_token`].
    pub fn fencing_token(&self) -> i64 {
        self.claim.fencing_token()
    }

    /// The claim, to be looked at by others too. Only the delivery settles it.
    pub fn claim(&self) -> ClaimHandle {
        self.claim.clone()
    }

    /// Takes the item out of the queue, and returns it (and those that were put with it as one) when that is done. To
    /// deliver at most once, call this first and work on what it returns. The ensemble decides, in one transaction:
    /// only the claim counts, not whether [`is_held`](Self::is_held) said so until now.
    ///
    /// # Errors
    /// [`Error::Lost`] if the claim was gone, or [`ErrorKind::SessionLost`](crate::ErrorKind::SessionLost) if the
    /// session was: the item is delivered again, unless it was deleted by hand.
    /// [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if the session ended before the answer came.
    /// With any other error the item is returned to the queue, and this consumer leaves it alone for 30 s.
    ///
    /// After a lost answer an item that is gone is taken for acked: it cannot be told from one that was deleted by hand
    /// meanwhile, or whose claim was, so that another consumer has acked it.
    ///
    /// # Cancel safety
    /// Once polled, it is done in the background also if the future is dropped.
    pub async fn ack(mut self) -> Result<Vec<T>, Error> {
        let settled = self.settle(Verdict::Ack);
        let items = self.take_items();
        settled.await.map(|()| items)
    }

    /// Returns the item to its place, under its name, as this delivery of it failed. After [the last
    /// delivery](crate::queue::DistributedQueueBuilder::max_deliveries) it becomes a dead letter. Returns when that is
    /// done.
    ///
    /// # Errors
    /// As [`nack_after`](Self::nack_after) without a delay.
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn nack(self) -> Result<(), Error> {
        self.nack_after(Duration::ZERO).await
    }

    /// As [`nack`](Self::nack), and this consumer does not claim the item again for so long. Others may.
    ///
    /// # Errors
    /// As [`ack`](Self::ack), but after any other error this consumer leaves the item alone for `delay` instead of 30
    /// s.
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn nack_after(mut self, delay: Duration) -> Result<(), Error> {
        let verdict = Verdict::failed(self.claim.claim(), delay, "it was not acknowledged (nack)".into());
        self.settle(verdict).await
    }

    /// Returns the item to its place, under its name, as nothing was done with it. This delivery counts: if it was [the
    /// last](crate::queue::DistributedQueueBuilder::max_deliveries), the next consumer that claims the item makes a
    /// dead letter of it, perhaps this one. Returns when that is done.
    ///
    /// # Errors
    /// As [`nack`](Self::nack).
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn release(mut self) -> Result<(), Error> {
        self.settle(Verdict::RELEASE).await
    }

    /// Makes the item a dead letter, for a reason that people will read.
    ///
    /// # Errors
    /// As [`ack`](Self::ack). There is no letter of an item that was deleted by hand.
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn reject(mut self, reason: impl Into<String> + Send) -> Result<(), Error> {
        let verdict = Verdict::rejected(self.claim.claim(), reason.into());
        self.settle(verdict).await
    }

    /// The items, for a handler.
    pub(super) fn take_items(&mut self) -> Vec<T> {
        std::mem::take(&mut self.items)
    }

    /// Hands the verdict over, and tells what came of it.
    pub(super) fn settle(&mut self, verdict: Verdict) -> Settlement {
        let (done, settlement) = Settlement::new(self.claim.claim(), verdict.returns());
        self.hand_over(verdict, Some(done));
        settlement
    }

    fn hand_over(&mut self, verdict: Verdict, done: Option<oneshot::Sender<Result<(), Unsettled>>>) {
        self.settled = true;
        let claim = Arc::clone(self.claim.claim());
        claim.end();
        // The task is gone with its runtime only.
        let _ = self.commands.send(Command::Settle { claim, verdict, done });
    }
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        if !self.settled {
            self.hand_over(Verdict::RELEASE, None);
        }
    }
}

impl<T> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("claim", &self.claim).finish_non_exhaustive()
    }
}
