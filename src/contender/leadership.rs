//! The handle that a leader works with.

use super::Hold;
use crate::client::Fence;

/// One term as leader, until it is lost or given up. Once lost it stays lost, also if the same participant leads again: that
/// is another term.
///
/// Dropping it does not resign: closing the latch does, or returning from the selector's listener.
#[derive(Debug)]
pub struct Leadership {
    hold: Hold,
}

/// The leadership ended before the work did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("leadership was lost before the work was done")]
pub struct LeadershipLost;

impl Leadership {
    pub(crate) fn new(hold: Hold) -> Self {
        Leadership { hold }
    }

    /// Returns a number that grows with every change of leader: the transaction that created the leader's node. A leader that
    /// regains leadership with the same node has the same token. (If the ensemble loses all of its data, its transactions are
    /// counted from the start again.)
    ///
    /// Send it along with writes to other stores, and let them refuse smaller ones than they have seen.
    pub fn fencing_token(&self) -> i64 {
        self.hold.token()
    }

    /// Whether this term still lasts. Compares the clock at each call.
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

    /// Runs `work` while the term lasts. When the term is lost, `work` is dropped at the await it is in, before it is polled
    /// again. Tasks that it spawned keep running; give them the [`fence`](Self::fence).
    ///
    /// # Errors
    /// [`LeadershipLost`] if the term ended first.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeadershipLost> {
        self.hold.run(work).await.ok_or(LeadershipLost)
    }

    /// Returns a fence that makes a [`Transaction`](crate::Transaction) depend on this leadership: the ensemble refuses it
    /// once the leader's node is gone, as another can lead then. A term that only a suspension ended
    /// ([`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard)) has its node, and its fence, while the participant keeps it.
    pub fn fence(&self) -> Fence {
        self.hold.fence()
    }
}
