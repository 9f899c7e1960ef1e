//! The guard of a lock.

use std::sync::Arc;

use super::error::Error;
use crate::client::Fence;
use crate::contender::held::Held;
use crate::contender::lock::LockLost;

/// The guard of a lock that is held.
///
/// Dropping it releases the lock in the background: the delete of the node is sent as soon as there is a connection,
/// and repeated until the node is gone. [`release`](Self::release) waits for that. If the runtime that keeps the
/// session has ended before, the node stays until the session ends.
///
/// A guard that was lost stays lost, also after a reconnect. Drop it and acquire the lock again.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::mutex::InterProcessMutex;
///
/// # async fn example(
/// #     client: Client,
/// #     mutex: InterProcessMutex,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = mutex.acquire().await?;
/// // The ensemble refuses this once another participant can hold.
/// let write = client
///     .transaction()
///     .check(&guard.fence())
///     .set_data("/my-service/report", b"42", None);
/// write.commit().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "Locker")]
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct MutexGuard {
    held: Arc<Held>,
}

impl MutexGuard {
    pub(super) fn new(held: Held) -> Self {
        MutexGuard { held: Arc::new(held) }
    }

    /// Returns a number that grows each time the lock gets another holder: the transaction that created the holder's
    /// node. (If the ensemble loses all of its data, its transactions are counted from the start again.)
    ///
    /// Send it along with each access to another store, from the first read on, and let the store refuse smaller
    /// numbers than it has seen. A store that learns a number only from writes still accepts an older holder between
    /// a read and a write of yours.
    pub fn fencing_token(&self) -> i64 {
        self.held.hold.token()
    }

    /// Returns whether the lock is still held. It compares the clock at each call.
    ///
    /// It notices that an operator deleted the node only if the node is watched. That is so for a holder that waited
    /// right behind the holder before it, or has called [`lost`](Self::lost), [`run`](Self::run) or
    /// [`on_revoke`](Self::on_revoke).
    #[doc(alias = "isAcquiredInThisProcess")]
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Waits until the lock is lost. From the first call on the node is watched, which costs one request if it was not
    /// watched yet.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.held.watch();
        self.held.hold.lost().await;
    }

    /// Runs `work` while the lock is held. When the lock is lost, `work` is dropped at the await it is in, before it is
    /// polled again. Tasks that it spawned keep running; give them the [`fence`](Self::fence). From the first call on
    /// the node is watched, as with [`lost`](Self::lost). After `work` has ended, the lock is still held.
    ///
    /// # Errors
    /// [`LockLost`] if the lock was lost first. A write that `work` was waiting for may or may not have happened.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        self.held.watch();
        self.held.hold.run(work).await.ok_or(LockLost)
    }

    /// Returns a fence that makes a [`Transaction`](crate::Transaction) depend on this lock. The ensemble refuses the
    /// transaction once the lock's node is gone, as another participant can hold then. A lock that only a suspension
    /// ended ([`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard)) keeps its node, and its fence, until the guard
    /// is dropped.
    pub fn fence(&self) -> Fence {
        self.held.hold.fence()
    }

    /// Waits until another client asks for the lock, through [`revoke`](super::revoke) or Curator's `Revoker`. Returns
    /// at once if that happened before. The holder decides what to do. From the first call on the node is watched, as
    /// with [`lost`](Self::lost).
    ///
    /// # Errors
    /// [`LockLost`] if the lock was lost first.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    #[doc(alias = "makeRevocable")]
    #[doc(alias = "RevocationListener")]
    pub async fn on_revoke(&self) -> Result<(), LockLost> {
        self.held.watch();
        if self.held.hold.revoked().await { Ok(()) } else { Err(LockLost) }
    }

    /// Returns another guard on the same hold. The lock is released with the last of its guards.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock is no longer held.
    pub fn reenter(&self) -> Result<MutexGuard, Error> {
        if !self.is_held() {
            return Err(Error::Lost { path: Arc::clone(&self.held.path) });
        }
        Ok(MutexGuard { held: Arc::clone(&self.held) })
    }

    /// Releases the lock, and returns when the server has deleted the node. If there are other guards on the same hold,
    /// nothing happens until the last of them is released or dropped. Without a connection it waits for one, or for the
    /// end of the session; to release in the background, drop the guard.
    ///
    /// # Errors
    /// * [`Error::Lost`] if the lock was no longer held at the time of this call, as [`is_held`](Self::is_held) tells.
    ///   Another participant may have held it while the work was done. The node is deleted all the same.
    /// * [`Error::Client`] with [`ErrorKind::SessionLost`](crate::ErrorKind::SessionLost) if the session ends during
    ///   the call.
    /// * Any other error if the server refused to delete the node. The delete is retried in the background until the
    ///   session ends.
    ///
    /// # Cancel safety
    /// The lock is released in any case: in the background if the future is dropped.
    pub async fn release(self) -> Result<(), Error> {
        let (held, path) = (self.is_held(), Arc::clone(&self.held.path));
        let released = match Arc::into_inner(self.held) {
            Some(held) => held.release().await.map_err(|error| Error::client(&path, error)),
            None => Ok(()),
        };
        // Also if the node could not be deleted: the janitor reports that, and only this call reports the loss.
        if held { released } else { Err(Error::Lost { path }) }
    }

    /// Returns the path of the mutex.
    pub fn path(&self) -> &str {
        &self.held.path
    }

    /// Returns the path of the hold's node as this client names it, without its namespace.
    pub fn node_path(&self) -> &str {
        self.held.node_path()
    }
}
