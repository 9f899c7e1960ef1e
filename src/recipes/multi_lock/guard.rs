//! The guard of several locks.

use super::{Error, LockKind, LockLost};
use crate::client::Fence;
use crate::contender::held::Held;
use crate::contender::held_together::{HeldTogether, NotReleased};

/// The guard of several locks that are held as one.
///
/// Dropping it releases all of them in the background, the last one first. [`release`](Self::release) waits for that.
/// A guard that was lost stays lost, even after a reconnect. Drop it and acquire the locks again.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::multi_lock::InterProcessMultiLock;
///
/// # async fn example(
/// #     client: Client,
/// #     locks: InterProcessMultiLock,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = locks.acquire().await?;
/// // The ensemble refuses this once another participant can hold one of the locks.
/// let write = client
///     .transaction()
///     .check(&guard.fence())
///     .set_data("/accounts/alice/balance", b"40", None)
///     .set_data("/accounts/bob/balance", b"60", None);
/// write.commit().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the locks at once"]
pub struct MultiLockGuard {
    held: HeldTogether,
}

impl MultiLockGuard {
    pub(super) fn new(held: Vec<Held>) -> Self {
        MultiLockGuard { held: HeldTogether::new(held) }
    }

    /// Returns whether all locks are still held. It compares the clock at each call.
    ///
    /// It notices that an operator deleted a node only if the nodes are watched. That is so once [`lost`](Self::lost),
    /// [`run`](Self::run) or [`on_revoke`](Self::on_revoke) was called.
    #[doc(alias = "isAcquiredInThisProcess")]
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Waits until one of the locks is lost. From the first call on the nodes are watched, which costs at most one
    /// request each.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.held.lost().await;
    }

    /// Runs `work` while all locks are held. When one is lost, `work` is dropped at the await it is in, before it is
    /// polled again. Tasks that it spawned keep running; give them the [`fence`](Self::fence). From the first call on
    /// the nodes are watched, as with [`lost`](Self::lost). After `work` has ended, the locks are still held.
    ///
    /// # Errors
    /// [`LockLost`] if a lock was lost first. A write that `work` was waiting for may or may not have happened.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        self.held.run(work).await.ok_or(LockLost)
    }

    /// Waits until another client asks for one of the locks, through [`revoke`](crate::mutex::revoke) or Curator's
    /// `Revoker`. Returns at once if that happened before. The holder decides what to do; the locks can only be
    /// released together. From the first call on the nodes are watched, as with [`lost`](Self::lost).
    ///
    /// # Errors
    /// [`LockLost`] if a lock was lost first.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    #[doc(alias = "makeRevocable")]
    #[doc(alias = "RevocationListener")]
    pub async fn on_revoke(&self) -> Result<(), LockLost> {
        if self.held.revoked().await { Ok(()) } else { Err(LockLost) }
    }

    /// Returns a fence that makes a [`Transaction`](crate::Transaction) depend on all of the locks. The ensemble
    /// refuses the transaction once the node of one of them is gone.
    pub fn fence(&self) -> Fence {
        self.held.fence()
    }

    /// Returns the fencing token of the lock at `path`, as the client names it; `None` if it is none of these. It grows
    /// each time that lock gets another holder; readers, who hold together, have one each.
    ///
    /// A store must keep the greatest token that it has seen for each lock by itself. Those of different locks cannot
    /// be compared, unless all that use the store hold the same set of locks.
    pub fn fencing_token(&self, path: &str) -> Option<i64> {
        self.held.iter().find(|one| &*one.path == path).map(|one| one.hold.token())
    }

    /// Returns the paths of the locks, in the order in which they were acquired.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.held.iter().map(|one| &*one.path)
    }

    /// Returns the paths of the nodes as this client names them, in the same order.
    pub fn node_paths(&self) -> impl Iterator<Item = &str> {
        self.held.node_paths()
    }

    /// Releases all locks, the last one first, and returns when the server has deleted the nodes. The deletes are sent
    /// together. Without a connection it waits for one, or for the end of the session; to release in the background,
    /// drop the guard.
    ///
    /// # Errors
    /// * [`Error::Lost`] if one of the locks was no longer held at the time of this call, as
    ///   [`is_held`](Self::is_held) tells. The nodes are deleted all the same.
    /// * [`Error::Client`] with [`ErrorKind::SessionLost`](crate::ErrorKind::SessionLost) if the session ends during
    ///   the call.
    /// * Any other error if the server refused to delete a node. The delete is retried in the background until the
    ///   session ends.
    ///
    /// # Cancel safety
    /// All locks are released in any case: in the background if the future is dropped.
    pub async fn release(self) -> Result<(), Error> {
        self.held.release().await.map_err(|failed| match failed {
            NotReleased::Lost(path) => Error::Lost { lock: LockKind::MultiLock, path },
            NotReleased::Failed(path, error) => Error::client(LockKind::MultiLock, &path, error),
        })
    }
}
