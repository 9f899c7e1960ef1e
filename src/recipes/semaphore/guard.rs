//! The guard of permits.

use std::sync::Arc;

use super::{Error, LockKind, LockLost};
use crate::client::Fence;
use crate::contender::held::Held;
use crate::contender::held_together::{HeldTogether, NotReleased};

/// The guard of permits that were acquired in one call.
///
/// Dropping it releases all of them in the background. [`release`](Self::release) waits for that. A guard that was lost
/// stays lost, even after a reconnect. Drop it and acquire again.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::semaphore::InterProcessSemaphore;
///
/// # async fn example(
/// #     client: Client,
/// #     licences: InterProcessSemaphore,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = licences.acquire(1).await?;
/// // The ensemble refuses this once another participant can have the permit.
/// let write = client
///     .transaction()
///     .check(&guard.fence())
///     .set_data("/my-service/report", b"42", None);
/// write.commit().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "Lease")]
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the permits at once"]
pub struct SemaphoreGuard {
    path: Arc<str>,
    leases: HeldTogether,
}

impl SemaphoreGuard {
    pub(super) fn new(path: &Arc<str>, leases: Vec<Held>) -> Self {
        SemaphoreGuard { path: Arc::clone(path), leases: HeldTogether::new(leases) }
    }

    /// Returns how many permits these are.
    pub fn permits(&self) -> u32 {
        u32::try_from(self.leases.iter().len()).unwrap_or(u32::MAX)
    }

    /// Returns whether all permits are still held. It compares the clock at each call.
    ///
    /// It notices that an operator deleted a lease only if the leases are watched. That is so once
    /// [`lost`](Self::lost) or [`run`](Self::run) was called.
    pub fn is_held(&self) -> bool {
        self.leases.is_held()
    }

    /// Waits until one of the permits is lost. From the first call on the leases are watched, which costs one request
    /// for each.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.leases.lost().await;
    }

    /// Runs `work` while all permits are held. When one is lost, `work` is dropped at the await it is in, before it is
    /// polled again. Tasks that it spawned keep running; give them the [`fence`](Self::fence). From the first call on
    /// the leases are watched, as with [`lost`](Self::lost). After `work` has ended, the permits are still held.
    ///
    /// # Errors
    /// [`LockLost`] if a permit was lost first. A write that `work` was waiting for may or may not have happened.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        self.leases.run(work).await.ok_or(LockLost)
    }

    /// Returns a fence that makes a [`Transaction`](crate::Transaction) depend on all of the permits. The ensemble
    /// refuses the transaction once one of the leases is gone, as another participant can have that permit then.
    pub fn fence(&self) -> Fence {
        self.leases.fence()
    }

    /// Returns the transaction that created the last of the leases.
    ///
    /// If all permits are acquired in each call, as with a semaphore of one permit, this grows with every holder, and a
    /// store can refuse smaller numbers than it has seen, as with a
    /// [mutex](crate::mutex::MutexGuard::fencing_token). Otherwise several hold at once, and the number only tells
    /// apart who has written: a store that refused smaller ones would refuse a holder that came earlier.
    pub fn fencing_token(&self) -> i64 {
        self.leases.iter().map(|one| one.hold.token()).max().unwrap_or_default()
    }

    /// Returns the paths of the leases' nodes as this client names them, without its namespace.
    #[doc(alias = "getNodeName")]
    pub fn node_paths(&self) -> impl Iterator<Item = &str> {
        self.leases.node_paths()
    }

    /// Returns the path of the semaphore.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Releases all permits, and returns when the server has deleted the leases. The deletes are sent together. Without
    /// a connection it waits for one, or for the end of the session; to release in the background, drop the guard.
    ///
    /// # Errors
    /// * [`Error::Lost`] if one of the permits was no longer held at the time of this call, as
    ///   [`is_held`](Self::is_held) tells. The leases are deleted all the same.
    /// * [`Error::Client`] with [`ErrorKind::SessionLost`](crate::ErrorKind::SessionLost) if the session ends during
    ///   the call.
    /// * Any other error if the server refused to delete a lease. The delete is retried in the background until the
    ///   session ends.
    ///
    /// # Cancel safety
    /// All permits are released in any case: in the background if the future is dropped.
    #[doc(alias = "returnLease")]
    #[doc(alias = "returnAll")]
    pub async fn release(self) -> Result<(), Error> {
        self.leases.release().await.map_err(|failed| match failed {
            NotReleased::Lost(path) => Error::Lost { lock: LockKind::Semaphore, path },
            NotReleased::Failed(path, error) => Error::client(LockKind::Semaphore, &path, error),
        })
    }
}
