//! An item in the hands of a consumer.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::claim::Claim;
use super::claimer::{Asked, Order};
use super::error::Error;
use super::names::Places;
use crate::client::lease::Grant;
use crate::client::{Client, Fence};

/// An item, claimed for as long as this exists: nobody else gets it. [`ack`](Self::ack) takes it out of the queue. Dropped
/// without, it goes back to its place, as by [`nack`](Self::nack), in the background; dropped after the claim was
/// [lost](Self::is_held), without an attempt being counted. If the runtime that keeps the session is gone by then, others get it
/// when the session ends.
///
/// Under [`DeliveryMode::AtMostOnce`](super::DeliveryMode::AtMostOnce) the item has left the queue before: there is no claim to
/// be lost, to ack or to drop it does nothing, and what is said to have failed becomes a dead letter at once.
#[must_use = "an item that is dropped goes back into the queue"]
pub struct Delivery<T> {
    items: Vec<T>,
    hold: ClaimHandle,
    orders: mpsc::UnboundedSender<Order>,
    stake: Stake,
}

/// What it would mean to drop a delivery now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stake {
    /// It is in the queue, and claimed: it goes back.
    Claimed,
    /// At most once: it has left the queue, so nothing becomes of it.
    Taken,
    /// Somebody has said what is to become of it.
    Settled,
}

/// The claim on an item was lost before the work on it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the claim on the item was lost")]
pub struct ClaimLost;

/// What is known of the claim on an item: of that of a [`Delivery`], or of the item that a [handler](super::QueueHandler) has in
/// hand.
#[derive(Clone)]
pub struct ClaimHandle {
    client: Client,
    places: Arc<Places>,
    claim: Arc<Claim>,
    /// None: the item has left the queue.
    grant: Option<Grant>,
}

impl ClaimHandle {
    /// Which attempt at the item this is: 1 for the first. An attempt counts when it was said to have failed, not when a
    /// consumer crashed, or lost its claim.
    pub fn attempt(&self) -> u32 {
        u32::try_from(self.claim.version).unwrap_or(0).saturating_add(1)
    }

    /// The name of the item's node: the same for every attempt, greater for items that were put later.
    pub fn name(&self) -> &str {
        &self.claim.name
    }

    /// Whether it is certain that nobody else has the item: compares the clock at each call. That somebody deleted the claim by
    /// hand is not seen here; its [`fence`](Self::fence) no longer stands, and an ack is refused.
    pub fn is_held(&self) -> bool {
        self.grant.is_none_or(|grant| self.claim.session.lease().is_valid(grant))
    }

    /// Resolves when the claim is lost.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        let mut conditions = self.claim.session.conditions();
        loop {
            let _ = *conditions.borrow_and_update();
            if !self.is_held() {
                return;
            }
            // Without a word from the session it stays as it is.
            if conditions.changed().await.is_err() {
                return;
            }
        }
    }

    /// Runs `work` for as long as the claim is held: when it is lost, `work` is dropped at the await it is in, before it is
    /// polled again.
    ///
    /// # Errors
    /// [`ClaimLost`] if the claim was lost first.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, ClaimLost> {
        // A loop over work that is done at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut work = std::pin::pin!(work);
        let mut lost = std::pin::pin!(self.lost());
        // The clock is asked before each poll of the work, as the end of the lease need not have been told yet.
        std::future::poll_fn(|cx| {
            if lost.as_mut().poll(cx).is_ready() || !self.is_held() {
                return Poll::Ready(Err(ClaimLost));
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Makes a [`Transaction`](crate::Transaction) depend on the claim: the ensemble refuses it once the claim is gone, be it
    /// lost or settled. Under at-most-once there is none any more, so it refuses always.
    pub fn fence(&self) -> Fence {
        let claim = &self.claim;
        Fence {
            core: Arc::clone(self.client.core()),
            session: Arc::clone(&claim.session),
            path: Arc::clone(&claim.node),
        }
    }
}

impl fmt::Debug for ClaimHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimHandle")
            .field("path", &self.places.path)
            .field("name", &self.name())
            .field("attempt", &self.attempt())
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

impl<T> Delivery<T> {
    pub(super) fn new(
        client: &Client,
        places: &Arc<Places>,
        (claim, items): (Arc<Claim>, Vec<T>),
        grant: Option<Grant>,
        orders: mpsc::UnboundedSender<Order>,
    ) -> Self {
        let stake = if grant.is_some() { Stake::Claimed } else { Stake::Taken };
        let hold = ClaimHandle { client: client.clone(), places: Arc::clone(places), claim, grant };
        Delivery { items, hold, orders, stake }
    }

    /// The item; the first one, if it was put with others as one.
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
        self.hold.name()
    }

    /// As [`ClaimHandle::attempt`].
    pub fn attempt(&self) -> u32 {
        self.hold.attempt()
    }

    /// As [`ClaimHandle::is_held`].
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// As [`ClaimHandle::lost`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// As [`ClaimHandle::run`].
    ///
    /// # Errors
    /// [`ClaimLost`] if the claim was lost first.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, ClaimLost> {
        self.hold.run(work).await
    }

    /// As [`ClaimHandle::fence`].
    pub fn fence(&self) -> Fence {
        self.hold.fence()
    }

    /// The claim, to be looked at by others too. Only the delivery settles it.
    pub fn claim(&self) -> ClaimHandle {
        self.hold.clone()
    }

    /// Takes the item out of the queue, and returns when that is done. Whether it may be done the ensemble decides, in one
    /// transaction: only the claim counts, not whether [`is_held`](Self::is_held) said so until now.
    ///
    /// # Errors
    /// [`Error::Lost`] if the claim was gone, or [`ErrorKind::SessionLost`](crate::ErrorKind::SessionLost) if the session was:
    /// the item is delivered again. [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if the session ended before
    /// the answer came. With any other error the item goes back into the queue.
    ///
    /// # Cancel safety
    /// Once polled, it is done in the background also if the future is dropped.
    pub async fn ack(self) -> Result<(), Error> {
        self.settle(Asked::Done).await
    }

    /// Puts the item back to its place, under its name; the attempt counts as failed. After
    /// [the last attempt](super::DistributedQueueBuilder::max_attempts), and under at-most-once, it goes to the dead letters.
    /// Returns when that is done. This consumer takes it again after those that it has
    /// [claimed ahead](super::DistributedQueueBuilder::prefetch).
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn nack(self) -> Result<(), Error> {
        self.nack_after(Duration::ZERO).await
    }

    /// As [`nack`](Self::nack), and this consumer does not take the item again for so long. Others may.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn nack_after(self, delay: Duration) -> Result<(), Error> {
        self.settle(Asked::Again { after: delay, reason: "it was put back".into() }).await
    }

    /// Sends the item to the dead letters, for a reason that people will read.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    ///
    /// # Cancel safety
    /// As [`ack`](Self::ack).
    pub async fn reject(self, reason: impl Into<String> + Send) -> Result<(), Error> {
        let reason = reason.into();
        self.settle(Asked::Bury { reason }).await
    }

    /// An attempt that failed for this reason.
    pub(super) async fn failed(self, after: Duration, reason: String) -> Result<(), Error> {
        self.settle(Asked::Again { after, reason }).await
    }

    /// What a handler gets.
    pub(super) fn take_items(&mut self) -> Vec<T> {
        std::mem::take(&mut self.items)
    }

    async fn settle(mut self, asked: Asked) -> Result<(), Error> {
        let (done, settled) = oneshot::channel();
        let claim = Arc::clone(&self.hold.claim);
        let order = match (std::mem::replace(&mut self.stake, Stake::Settled), asked) {
            (Stake::Claimed, asked) => Order::Settle { claim, asked, done: Some(done) },
            (_, Asked::Again { reason, .. } | Asked::Bury { reason }) => Order::Keep { claim, reason, done },
            (_, Asked::Done | Asked::GiveBack) => return Ok(()),
        };
        // The task is gone with its runtime only.
        let _ = self.orders.send(order);
        let path = &self.hold.places.path;
        settled.await.unwrap_or_else(|_| Err(Error::Closed { path: Arc::clone(path) }))
    }
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        if self.stake == Stake::Claimed {
            let claim = Arc::clone(&self.hold.claim);
            // What was lost says nothing about the item.
            let asked = match self.hold.is_held() {
                true => Asked::Again { after: Duration::ZERO, reason: "it was dropped without an ack".into() },
                false => Asked::GiveBack,
            };
            // The task is gone with its runtime only.
            let _ = self.orders.send(Order::Settle { claim, asked, done: None });
        }
    }
}

impl<T> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("claim", &self.hold).finish_non_exhaustive()
    }
}
