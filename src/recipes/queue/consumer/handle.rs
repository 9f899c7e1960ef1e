//! The handle to a claim, for the code that works on its item.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::claim::Claim;
use crate::client::core::Core;
use crate::client::lease::Grant;
use crate::client::{Client, Fence};
use crate::util::wait::run_while_held;

/// The claim on an item was lost or settled before the work was done. Returned by [`ClaimHandle::run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the claim on the item was lost or settled")]
pub struct ClaimLost;

/// A handle to the claim on the item of a [`Delivery`](super::Delivery), or on the item that a
/// [handler](super::QueueHandler) handles. It can be cloned and used from any task; only the delivery can settle the
/// claim.
///
/// ```no_run
/// use zookeeper_recipes::queue::{BoxError, ClaimHandle, Consumer, Utf8};
///
/// # async fn store(order: &str, token: i64) -> Result<(), BoxError> { Ok(()) }
/// # fn example(consumer: Consumer<Utf8>) {
/// let handler = |order: String, claim: ClaimHandle| async move {
///     // The store refuses a token smaller than the last one of this order.
///     claim.run(store(&order, claim.fencing_token())).await?
/// };
/// tokio::spawn(async move { consumer.consume(4, handler).await });
/// # }
/// ```
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

    /// Returns the number of this delivery: one more than the number of earlier deliveries of the item that failed, or
    /// ended with their sessions. A delivery whose item was returned unhandled does not count, so the next one has the
    /// same number. For a number that is unique to each claim, see [`fencing_token`](Self::fencing_token).
    pub fn attempt(&self) -> u32 {
        self.inner.claim.attempt()
    }

    /// Returns the name of the item's node. It is the same for every delivery, and greater for items that were put
    /// later.
    pub fn name(&self) -> &str {
        &self.inner.claim.name
    }

    /// Returns whether the claim is held, so that no other consumer can have the item. Compares the clock at each call.
    /// Returns false as soon as the delivery is settled or dropped.
    ///
    /// A deletion of the claim by hand is noticed only after [`lost`](Self::lost) or [`run`](Self::run) was called.
    /// Writes with its [`fence`](Self::fence) and its settlement are refused in any case.
    pub fn is_held(&self) -> bool {
        let claim = &self.inner.claim;
        !*claim.end_state().borrow() && claim.session.lease().is_valid(self.inner.grant)
    }

    /// Resolves when the claim is lost or settled. The first call starts to watch the claim's node, which costs a
    /// request.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.watch_node();
        self.not_held().await;
    }

    /// Runs `work` while the claim is held. If the claim is lost or settled, `work` is dropped before it is
    /// polled again. The first call starts to watch the claim's node, which costs a request.
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

    /// Runs `work` as [`run`](Self::run) does, but without watching the claim's node: only the clock and the session
    /// decide whether the claim is held.
    pub(super) async fn run_unwatched<F: Future>(&self, work: F) -> Result<F::Output, ClaimLost> {
        run_while_held(|| self.is_held(), self.not_held(), work).await.ok_or(ClaimLost)
    }

    /// Returns a fence that makes a [`Transaction`](crate::Transaction) depend on this claim. Once the claim is lost or
    /// the item was claimed again, the ensemble refuses the transaction with
    /// [`ErrorKind::Fenced`](crate::ErrorKind::Fenced). Once the delivery is settled or dropped, the transaction is
    /// refused without a request. Use the fence before the ack, with the client of the queue. The ack is a separate
    /// transaction: after a crash between the two the item is redelivered, so the write must tolerate a repetition.
    pub fn fence(&self) -> Fence {
        let claim = &self.inner.claim;
        Fence {
            core: Arc::clone(self.inner.client.core()),
            session: Arc::clone(&claim.session),
            path: Arc::clone(&claim.node),
            nodes: claim.checks().into_iter().map(|(path, version)| (path, Some(version))).collect(),
            released: Some(claim.end_state()),
        }
    }

    /// Returns a number that is greater for every later claim: the id of the transaction that made the claim. It is
    /// meant for stores other than ZooKeeper. Send it with each access, from the first read on. The store keeps the
    /// greatest number that it has seen for each item, under the item's own key, and refuses smaller ones. Do not
    /// compare the numbers of different items: items are handled concurrently, and the claim with the smaller number
    /// may still be held.
    pub fn fencing_token(&self) -> i64 {
        self.inner.claim.zxid
    }

    /// Returns the client's core.
    pub(super) fn core(&self) -> Arc<Core> {
        Arc::clone(self.inner.client.core())
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
                // The session was dropped, so no further change will be reported.
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
