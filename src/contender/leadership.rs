//! The handle that a leader works with.

use std::sync::Arc;

use super::Hold;
use crate::client::Fence;

/// One term as leader, until it is lost or given up. A lost term stays lost. If the same participant leads again, that
/// is another term.
///
/// Dropping the value does not resign. To resign, close the latch, or call its
/// [`resign`](crate::leader_latch::LeaderLatch::resign), or return from the selector's listener.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::leader_latch::Leadership;
///
/// # async fn example(
/// #     client: Client,
/// #     leadership: Leadership,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// // The ensemble refuses this once another participant can lead.
/// let write = client
///     .transaction()
///     .check(&leadership.fence())
///     .set_data("/my-service/plan", b"42", None);
/// write.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Leadership {
    hold: Hold,
}

/// The error of [`Leadership::run`]: the leadership ended before the work did.
#[doc(alias = "CancelLeadershipException")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("leadership was lost before the work was done")]
pub struct LeadershipLost;

impl Leadership {
    pub(crate) fn new(hold: Hold) -> Self {
        Leadership { hold }
    }

    /// Returns the path of the election, as it was given to the latch or the selector.
    pub fn path(&self) -> &str {
        self.hold.dir()
    }

    /// Returns the id of this participant. It is empty if none was set.
    pub fn id(&self) -> &str {
        // The node holds only the id, which is text.
        std::str::from_utf8(self.hold.data()).unwrap_or_default()
    }

    /// Returns a number that grows with every change of leader: the transaction that created the leader's node. A
    /// leader that regains leadership with the same node has the same token. (If the ensemble loses all of its data,
    /// its transactions are counted from the start again.)
    ///
    /// Send it along with each access to another store, from the first read on, and let the store refuse smaller
    /// numbers than it has seen. A store that learns a number only from writes still accepts an older holder between
    /// a read and a write of yours.
    #[doc(alias = "getLastPathIsLeader")]
    pub fn fencing_token(&self) -> i64 {
        self.hold.token()
    }

    /// Returns whether this term still lasts. It compares the clock at each call.
    #[doc(alias = "hasLeadership")]
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// Waits until this term is over.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.hold.lost().await;
    }

    /// Runs `work` while the term lasts. When the term is lost, `work` is dropped at the await it is in, before it is
    /// polled again. Tasks that it spawned keep running; give them the [`fence`](Self::fence).
    ///
    /// # Errors
    /// [`LeadershipLost`] if the term ended first. A write that `work` was waiting for may or may not have happened.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeadershipLost> {
        self.hold.run(work).await.ok_or(LeadershipLost)
    }

    /// Waits until this leader is asked to resign, through
    /// [`leader_latch::ask_to_resign`](crate::leader_latch::ask_to_resign) or
    /// [`leader_latch::transfer`](crate::leader_latch::transfer), or by one that has a lower number as
    /// [`priority`](crate::leader_latch::LeaderLatchBuilder::priority). Returns at once if that happened before. Only a
    /// latch that is [`revocable`](crate::leader_latch::LeaderLatchBuilder::revocable) can be asked; from then on its
    /// grace period runs, and [`LeaderLatch::resign`](crate::leader_latch::LeaderLatch::resign) ends it early.
    ///
    /// # Errors
    /// [`LeadershipLost`] if the term ended first.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn on_revoke(&self) -> Result<(), LeadershipLost> {
        if self.hold.revoked().await { Ok(()) } else { Err(LeadershipLost) }
    }

    /// Returns the path of the leader's node on the server.
    pub(crate) fn node(&self) -> &Arc<str> {
        self.hold.path()
    }

    /// Returns a fence that makes a [`Transaction`](crate::Transaction) depend on this leadership. The ensemble refuses
    /// the transaction once the leader's node is gone, as another participant can lead then. A term that only a
    /// suspension ended ([`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard)) keeps its node, and its fence, while
    /// the participant keeps the node.
    pub fn fence(&self) -> Fence {
        self.hold.fence()
    }
}
