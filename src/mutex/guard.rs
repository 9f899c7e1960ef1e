//! What a holder has in hand.

use std::sync::Arc;

use super::error::Error;
use super::held::Held;
use crate::client::Fence;

/// The lock, for as long as it is held. Dropping it releases the lock in the background: the node is deleted as soon as there
/// is a connection, again and again until it is gone; [`release`](Self::release) waits for that. If the runtime that
/// keeps the session is gone by then, the node stays until the session ends.
///
/// Once lost it stays lost, whatever becomes of the connection: drop it and acquire anew.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct MutexGuard {
    held: Arc<Held>,
}

/// The lock was lost before the work was done, or before anybody asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lock was lost")]
pub struct LockLost;

impl MutexGuard {
    pub(super) fn new(held: Held) -> Self {
        MutexGuard { held: Arc::new(held) }
    }

    /// A number that grows with every hand-over of the lock: the transaction that created the holder's node. (Should the
    /// ensemble lose all of its data, its transactions are counted anew.)
    ///
    /// Send it along with writes to other stores, and let them refuse smaller ones than they have seen.
    pub fn fencing_token(&self) -> i64 {
        self.held.hold.token()
    }

    /// Whether the lock is still held: compares the clock at each call. That somebody deleted the node by hand is noticed
    /// only if the node is watched: by a holder that waited right behind the one before it, or has used [`lost`](Self::lost),
    /// [`run`](Self::run) or [`on_revoke`](Self::on_revoke).
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Resolves when the lock is lost. From the first call on the node is watched, which costs one request if it was not yet.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        self.held.watch();
        self.held.hold.lost().await;
    }

    /// Runs `work` for as long as the lock is held: when it is lost, `work` is dropped at the await it is in, before it is
    /// polled again. Tasks that it spawned live on; give them the [`fence`](Self::fence). From the first call on the node is
    /// watched, as by [`lost`](Self::lost). The lock is held on after `work` is done.
    ///
    /// # Errors
    /// [`LockLost`] if the lock was lost first. A write that `work` was waiting for then may or may not have happened.
    ///
    /// # Cancel safety
    /// Dropping it drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        self.held.watch();
        self.held.hold.run(work).await.ok_or(LockLost)
    }

    /// Makes a [`Transaction`](crate::Transaction) depend on this lock: the ensemble refuses it once its node is gone, as that
    /// is when another can hold it. A lock lost to a mere suspension
    /// ([`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard)) has its node, and its fence, until the guard goes.
    pub fn fence(&self) -> Fence {
        self.held.hold.fence()
    }

    /// Resolves when somebody asks for the lock, by [`revoke`](super::revoke) or Curator's `Revoker`; at once if that has
    /// happened already. What to do about it is up to the holder. From the first call on the node is watched, as by
    /// [`lost`](Self::lost).
    ///
    /// # Errors
    /// [`LockLost`] if the lock was lost first.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn on_revoke(&self) -> Result<(), LockLost> {
        self.held.watch();
        if self.held.hold.revoked().await { Ok(()) } else { Err(LockLost) }
    }

    /// Another guard on the same hold: the lock is released when the last of them is.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock is held no more.
    pub fn reenter(&self) -> Result<MutexGuard, Error> {
        if !self.is_held() {
            return Err(Error::Lost { path: Arc::clone(&self.held.path) });
        }
        Ok(MutexGuard { held: Arc::clone(&self.held) })
    }

    /// Releases the lock and returns when the server has deleted the node. If there are other guards on the same hold,
    /// nothing happens until the last of them is released or dropped. Without a connection it waits for one, or for the end of
    /// the session; drop the guard instead to release it in the background.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was held no more when this was called, as [`is_held`](Self::is_held) tells: then what was done
    /// under it may have met somebody else. The node, if there is one still, is deleted all the same. [`Error::Client`] with
    /// [`ErrorKind::SessionLost`](crate::ErrorKind::SessionLost) if the session ends during the call. Any other error means that
    /// the server would not delete the node: that is tried again in the background until the session ends.
    ///
    /// # Cancel safety
    /// The lock is released in any case: if the future is dropped, in the background.
    pub async fn release(self) -> Result<(), Error> {
        let (held, path) = (self.is_held(), Arc::clone(&self.held.path));
        let released = match Arc::into_inner(self.held) {
            Some(held) => held.release().await,
            None => Ok(()),
        };
        // Also if the node could not be deleted: the janitor tells that, and only this call tells of the loss.
        if held { released } else { Err(Error::Lost { path }) }
    }

    /// The path of the mutex.
    pub fn path(&self) -> &str {
        &self.held.path
    }

    /// The path of the node that stands for this hold, as this client names it: without its namespace.
    pub fn node_path(&self) -> &str {
        self.held.node_path()
    }
}
