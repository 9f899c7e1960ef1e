//! The guards of a read-write lock.

use std::sync::Arc;

use super::error::Error;
use crate::client::Fence;
use crate::contender::held::Held;
use crate::contender::lock::{LockLine, LockLost};

/// The guard of a lock that is held for reading, beside other readers.
///
/// Dropping it releases the lock in the background: the delete of the node is sent as soon as there is a connection,
/// and repeated until the node is gone. [`release`](Self::release) waits for that. If the runtime that keeps the
/// session has ended before, the node stays until the session ends.
///
/// A guard that was lost stays lost, also after a reconnect. Drop it and acquire the lock again.
///
/// It cannot become a [`WriteGuard`]: two readers that both waited for the other to go would wait forever. Release it
/// and acquire the write lock; others may write in between.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct ReadGuard {
    held: Held,
}

/// The guard of a lock that is held for writing, alone.
///
/// Dropping it releases the lock in the background: the delete of the node is sent as soon as there is a connection,
/// and repeated until the node is gone. [`release`](Self::release) waits for that. If the runtime that keeps the
/// session has ended before, the node stays until the session ends.
///
/// A guard that was lost stays lost, also after a reconnect. Drop it and acquire the lock again.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
///
/// # async fn example(
/// #     client: Client,
/// #     lock: InterProcessReadWriteLock,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = lock.write().acquire().await?;
/// // The ensemble refuses this once another participant can hold.
/// let write = client
///     .transaction()
///     .check(&guard.fence())
///     .set_data("/my-service/index", b"42", None);
/// write.commit().await?;
/// // No other participant writes between what was written and what is read now.
/// let guard = guard.downgrade().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct WriteGuard {
    held: Held,
    reads: LockLine,
}

/// Adds what both guards have.
macro_rules! guard {
    ($guard:ident) => {
        impl $guard {
            /// Returns whether the lock is still held. It compares the clock at each call.
            ///
            /// It notices that an operator deleted the node if the node is watched: for certain from the first call of
            /// [`lost`](Self::lost), [`run`](Self::run) or [`on_revoke`](Self::on_revoke) on.
            #[doc(alias = "isAcquiredInThisProcess")]
            pub fn is_held(&self) -> bool {
                self.held.is_held()
            }

            /// Waits until the lock is lost. From the first call on the node is watched, which costs one request if it
            /// was not watched yet.
            ///
            /// # Cancel safety
            /// Cancel safe: it only waits.
            pub async fn lost(&self) {
                self.held.watch();
                self.held.hold.lost().await;
            }

            /// Runs `work` while the lock is held. When the lock is lost, `work` is dropped at the await it is in,
            /// before it is polled again. Tasks that it spawned keep running; give them the [`fence`](Self::fence).
            /// From the first call on the node is watched, as with [`lost`](Self::lost). After `work` has ended, the
            /// lock is still held.
            ///
            /// # Errors
            /// [`LockLost`] if the lock was lost first. A write that `work` was waiting for may or may not have
            /// happened.
            ///
            /// # Cancel safety
            /// Dropping the future drops `work`.
            pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
                self.held.watch();
                self.held.hold.run(work).await.ok_or(LockLost)
            }

            /// Waits until another client asks for the lock, through [`revoke`](super::revoke) or Curator's `Revoker`.
            /// Returns at once if that happened before. The holder decides what to do. From the first call on the node
            /// is watched, as with [`lost`](Self::lost).
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

            /// Returns a fence that makes a [`Transaction`](crate::Transaction) depend on this guard. The ensemble
            /// refuses the transaction once the guard's node is gone. A lock that only a suspension ended
            /// ([`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard)) keeps its node, and its fence, until the guard
            /// is dropped.
            pub fn fence(&self) -> Fence {
                self.held.hold.fence()
            }

            /// Releases the lock, and returns when the server has deleted the node. Without a connection it waits for
            /// one, or for the end of the session; to release in the background, drop the guard.
            ///
            /// # Errors
            /// * [`Error::Lost`] if the lock was no longer held at the time of this call, as
            ///   [`is_held`](Self::is_held) tells. Another participant may have written while the work was done. The
            ///   node is deleted all the same.
            /// * [`Error::Client`] with [`ErrorKind::SessionLost`](crate::ErrorKind::SessionLost) if the session ends
            ///   during the call.
            /// * Any other error if the server refused to delete the node. The delete is retried in the background
            ///   until the session ends.
            ///
            /// # Cancel safety
            /// The lock is released in any case: in the background if the future is dropped.
            pub async fn release(self) -> Result<(), Error> {
                let (held, path) = (self.is_held(), Arc::clone(&self.held.path));
                let released = self.held.release().await;
                // Also if the node could not be deleted: the janitor reports that, and only this call reports the loss.
                if held { released.map_err(|error| Error::client(&path, error)) } else { Err(Error::Lost { path }) }
            }

            /// Returns the path of the lock.
            pub fn path(&self) -> &str {
                &self.held.path
            }

            /// Returns the path of the guard's node as this client names it, without its namespace.
            pub fn node_path(&self) -> &str {
                self.held.node_path()
            }
        }
    };
}

guard!(ReadGuard);
guard!(WriteGuard);

impl ReadGuard {
    pub(super) fn new(held: Held) -> Self {
        ReadGuard { held }
    }

    /// Returns a number that is greater than that of every writer before, and smaller than that of every writer after:
    /// the transaction that created the guard's node, or that of the write guard that it was. (If the ensemble loses
    /// all of its data, its transactions are counted from the start again.)
    ///
    /// Readers that hold together have different tokens, so a store must not refuse a reader for a token smaller than
    /// that of another reader. Let it remember those of writers only, and compare a reader's with them.
    pub fn fencing_token(&self) -> i64 {
        self.held.hold.token()
    }
}

impl WriteGuard {
    pub(super) fn new(held: Held, reads: &LockLine) -> Self {
        WriteGuard { held, reads: reads.clone() }
    }

    /// Returns a number that grows each time the lock gets another writer: the transaction that created the guard's
    /// node. (If the ensemble loses all of its data, its transactions are counted from the start again.)
    ///
    /// Send it along with each access to another store, from the first read on, and let the store refuse smaller
    /// numbers than it has seen. A store that learns a number only from writes still accepts an older holder between
    /// a read and a write of yours.
    pub fn fencing_token(&self) -> i64 {
        self.held.hold.token()
    }

    /// Turns this guard into one for reading. No other participant can write in between: one transaction exchanges the
    /// node for that of a reader at the same place. Readers that wait for this guard alone enter then. Fences of this
    /// guard are refused from then on; the token stays the same.
    ///
    /// Without a connection it waits for one, as long as the lock is held. A request to release that came before does
    /// not count for the new guard, nor do watches: call [`lost`](ReadGuard::lost), [`run`](ReadGuard::run) or
    /// [`on_revoke`](ReadGuard::on_revoke) again.
    ///
    /// # Errors
    /// The lock is released after any error, in the background.
    ///
    /// * [`Error::Lost`] if the lock was no longer held. Another participant may have written.
    /// * [`Error::Client`] if the server refused the transaction, for example without permission.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released in the background.
    pub async fn downgrade(self) -> Result<ReadGuard, Error> {
        let path = Arc::clone(&self.held.path);
        if !self.is_held() {
            return Err(Error::Lost { path });
        }
        match self.reads.downgrade(self.held).await {
            Ok(Some(held)) => Ok(ReadGuard::new(held)),
            Ok(None) => Err(Error::Lost { path }),
            Err(error) => Err(Error::client(&path, error)),
        }
    }
}
