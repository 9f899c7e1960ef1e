//! What a leader has in hand.

use crate::client::Fence;
use crate::contender::Hold;

/// One term as leader, until it is lost or the latch is closed. Once lost it stays lost, also if the same latch leads
/// again: ask for the next one.
///
/// Dropping it does not resign; [`LeaderLatch::close`](super::LeaderLatch::close) does.
#[derive(Debug)]
pub struct Leadership {
    hold: Hold,
}

/// The leadership ended before the work did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("leadership was lost before the work was done")]
pub struct LeadershipLost;

impl Leadership {
    pub(super) fn new(hold: Hold) -> Self {
        Leadership { hold }
    }

    /// A number that grows with every change of leader: the transaction that created the leader's node. The same leader
    /// that regains leadership with the same node has the same token. (Should the ensemble lose all of its data, its
    /// transactions are counted anew.)
    ///
    /// Send it along with writes to other stores, and let them refuse smaller ones than they have seen.
    pub fn fencing_token(&self) -> i64 {
        self.hold.token()
    }

    /// Whether this term still lasts: compares the clock at each call.
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Resolves when this term is over.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// Runs `work` for as long as the term lasts: when it is lost, `work` is dropped at the await it is in, before it is
    /// polled again. Tasks that it spawned live on; give them the [`fence`](Self::fence).
    ///
    /// # Errors
    /// [`LeadershipLost`] if the term ended first.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeadershipLost> {
        // A loop over work that is done at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut work = std::pin::pin!(work);
        let mut lost = std::pin::pin!(self.lost());
        // The clock is asked before each poll of the work, as the end of the lease need not have been told yet.
        std::future::poll_fn(|cx| {
            if lost.as_mut().poll(cx).is_ready() || !self.is_held() {
                return std::task::Poll::Ready(Err(LeadershipLost));
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Makes a [`Transaction`](crate::Transaction) depend on this leadership: it is refused once another leads.
    pub fn fence(&self) -> Fence {
        self.hold.fence()
    }
}
