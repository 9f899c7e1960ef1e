//! What is known of a claim, for those who work on its item.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use super::claim::Claim;
use crate::client::lease::Grant;
use crate::client::{Client, Fence};

/// The claim on an item was lost, or settled, before the work on it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the claim on the item was lost or settled")]
pub struct ClaimLost;

/// The claim on the item of a [`Delivery`](super::Delivery), or on the one that a [handler](super::QueueHandler) has in
/// hand. It can be cloned and looked at from anywhere; only the delivery settles it.
#[derive(Clone)]
pub struct ClaimHandle {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    claim: Arc<Claim>,
    grant: Grant,
    watched: AtomicBool,
}

impl ClaimHandle {
    pub(super) fn new(client: &Client, claim: Arc<Claim>, grant: Grant) -> Self {
        ClaimHandle { inner: Arc::new(Inner { client: client.clone(), claim, grant, watched: AtomicBool::new(false) }) }
    }

    pub(super) fn claim(&self) -> &Arc<Claim> {
        &self.inner.claim
    }

    /// The number of this delivery of the item: 1 for the first. Each claim on an item has a number of its own, also
    /// one that ended with a crash, or that was returned before anything was done.
    pub fn attempt(&self) -> u32 {
        self.inner.claim.attempt()
    }

    /// The name of the item's node: the same for every delivery, greater for items that were put later.
    pub fn name(&self) -> &str {
        &self.inner.claim.name
    }

    /// Whether no other consumer can have the item: compares the clock at each call. False from the moment at which the
    /// delivery is settled, or dropped.
    ///
    /// A claim that was deleted by hand is noticed once [`lost`](Self::lost) or [`run`](Self::run) was called; its
    /// [`fence`](Self::fence) and its settlement are refused in any case.
    pub fn is_held(&self) -> bool {
        let claim = &self.inner.claim;
        !*claim.end_state().borrow() && claim.session.lease().is_valid(self.inner.grant)
    }

    /// Resolves when the claim is lost or settled. The first call has its node watched, which costs a request.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.watch_node();
        self.not_held().await;
    }

    /// Runs `work` for as long as the claim is held: when it is lost or settled, `work` is dropped at the await it is
    /// in, before it is polled again. The first call has the claim's node watched, which costs a request.
    ///
    /// # Errors
    /// [`ClaimLost`] if the claim was lost or settled first.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, ClaimLost> {
        self.watch_node();
        self.run_unwatched(work).await
    }

    /// As [`run`](Self::run), by the clock and the session alone.
    pub(super) async fn run_unwatched<F: Future>(&self, work: F) -> Result<F::Output, ClaimLost> {
        // A loop over work that is done at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut work = std::pin::pin!(work);
        let mut lost = std::pin::pin!(self.not_held());
        // The clock is asked before each poll of the work, as the end of the lease need not have been told yet.
        std::future::poll_fn(|cx| {
            if lost.as_mut().poll(cx).is_ready() || !self.is_held() {
                return Poll::Ready(Err(ClaimLost));
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Makes a [`Transaction`](crate::Transaction) depend on this claim: it is refused, with
    /// [`ErrorKind::Fenced`](crate::ErrorKind::Fenced), by the ensemble once the claim is gone or the item was claimed
    /// again, and without a request once the delivery was settled or dropped. Use it before the ack, with the client of
    /// the queue. The ack is a transaction of its own: after a crash in between the item comes again, so write what may
    /// be written twice.
    pub fn fence(&self) -> Fence {
        let claim = &self.inner.claim;
        Fence {
            core: Arc::clone(self.inner.client.core()),
            session: Arc::clone(&claim.session),
            path: Arc::clone(&claim.node),
            versions: claim.checks().into(),
            given_back: Some(claim.end_state()),
        }
    }

    /// A number that is greater for every later claim: the id of the transaction that made it. For stores other than
    /// ZooKeeper: let them keep the greatest number they have seen of each item, by a key of its own, and refuse
    /// smaller ones. The numbers of different items must not be compared: items are worked on side by side, and the
    /// claim with the smaller number may be held still.
    pub fn fencing_token(&self) -> i64 {
        self.inner.claim.zxid
    }

    async fn not_held(&self) {
        let mut conditions = self.inner.claim.session.conditions();
        let mut ended = std::pin::pin!(self.inner.claim.ended());
        loop {
            let _ = *conditions.borrow_and_update();
            if !self.is_held() {
                return;
            }
            tokio::select! {
                biased;
                () = &mut ended => return,
                // Without a word from the session it stays as it is.
                changed = conditions.changed() => if changed.is_err() { return },
            }
        }
    }

    fn watch_node(&self) {
        if self.is_held() && !self.inner.watched.swap(true, Ordering::Relaxed) {
            let claim = Arc::clone(&self.inner.claim);
            self.inner.client.core().runtime.spawn(async move { claim.watch_node().await });
        }
    }
}

impl fmt::Debug for ClaimHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimHandle")
            .field("path", &self.inner.claim.shared.paths.path)
            .field("name", &self.name())
            .field("attempt", &self.attempt())
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}
