//! The guard of a lock.

use std::fmt;
use std::sync::Arc;

use super::error::{Error, LockKind, LockLost};
use crate::client::Fence;
use crate::contender::held::Held;
use crate::contender::lock::LockLine;
use crate::recipes::lock::sealed::Sealed;

/// The guard of a lock that is held: a [`MutexGuard`](crate::mutex::MutexGuard), a
/// [`ReadGuard`](crate::read_write_lock::ReadGuard) or a [`WriteGuard`](crate::read_write_lock::WriteGuard).
///
/// Dropping it releases the lock in the background: the delete of the node is sent as soon as there is a connection,
/// and repeated until the node is gone. [`release`](Self::release) waits for that. If the runtime that keeps the
/// session has ended before, the node stays until the session ends.
///
/// A guard that was lost stays lost, even after a reconnect. Drop it and acquire the lock again.
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
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct Guard<M: Mode> {
    held: Arc<Held>,
    mode: M,
}

/// How a lock is held. Only this crate implements it.
pub trait Mode: Sealed {
    /// The kind of the lock.
    const LOCK: LockKind;
    /// The name of the mode.
    const NAME: &'static str;
}

/// Held alone: a mutex.
#[derive(Debug)]
pub struct Exclusive;

/// Held for reading, beside other readers.
#[derive(Debug)]
pub struct Read;

/// Held for writing, alone.
#[derive(Debug)]
pub struct Write {
    /// The line that it enters when it is downgraded.
    reads: LockLine,
}

impl Sealed for Exclusive {}
impl Sealed for Read {}
impl Sealed for Write {}

impl Mode for Exclusive {
    const LOCK: LockKind = LockKind::Mutex;
    const NAME: &'static str = "exclusive";
}

impl Mode for Read {
    const LOCK: LockKind = LockKind::ReadWriteLock;
    const NAME: &'static str = "read";
}

impl Mode for Write {
    const LOCK: LockKind = LockKind::ReadWriteLock;
    const NAME: &'static str = "write";
}

impl<M: Mode> Guard<M> {
    /// The kind of the lock.
    pub(crate) const LOCK: LockKind = M::LOCK;

    fn of(held: Held, mode: M) -> Self {
        Guard { held: Arc::new(held), mode }
    }

    /// Returns the transaction that created the guard's node: a number that is greater for every later holder. A
    /// downgraded guard keeps the number of the writer. (If the ensemble loses all of its data, its transactions are
    /// counted from the start again.)
    ///
    /// The holder of a mutex and a writer send it along with each access to another store, from the first read on, and
    /// the store refuses smaller numbers than it has seen. A store that learns a number only from writes still accepts
    /// an older holder between a read and a write of yours.
    ///
    /// Readers that hold together have different numbers, so a store must not compare readers with each other. It
    /// remembers the numbers of writers only, and refuses a reader whose number is smaller than a writer's.
    pub fn fencing_token(&self) -> i64 {
        self.held.hold.token()
    }

    /// Returns whether the lock is still held. It compares the clock at each call.
    ///
    /// It notices that an operator deleted the node only if the node is watched: for certain from the first call of
    /// [`lost`](Self::lost), [`run`](Self::run) or [`on_revoke`](Self::on_revoke) on.
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

    /// Waits until another client asks for the lock, through [`mutex::revoke`](crate::mutex::revoke),
    /// [`read_write_lock::revoke`](crate::read_write_lock::revoke) or Curator's `Revoker`. Returns at once if that
    /// happened before. The holder decides what to do. From the first call on the node is
    /// watched, as with [`lost`](Self::lost).
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

    /// Returns a fence that makes a [`Transaction`](crate::Transaction) depend on this guard. The ensemble refuses the
    /// transaction once the guard's node is gone, because a participant that this guard excludes can hold then. A lock
    /// that only a suspension ended ([`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard)) keeps its node, and its
    /// fence, until the guard is dropped.
    pub fn fence(&self) -> Fence {
        self.held.hold.fence()
    }

    /// Releases the lock, and returns when the server has deleted the node. If a mutex has other guards on the same
    /// hold, nothing happens until the last of them is released or dropped. Without a connection it waits for one, or
    /// for the end of the session; to release in the background, drop the guard.
    ///
    /// # Errors
    /// * [`Error::Lost`] if the lock was no longer held at the time of this call, as [`is_held`](Self::is_held)
    ///   reports. Another participant may have held it while the work was done. The node is deleted all the same.
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
            Some(held) => held.release().await.map_err(|error| Error::client(M::LOCK, &path, error)),
            None => Ok(()),
        };
        // Even if the node could not be deleted: the janitor reports that, and only this call reports the loss.
        if held { released } else { Err(Error::Lost { lock: M::LOCK, path }) }
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &str {
        &self.held.path
    }

    /// Returns the path of the guard's node as this client names it, without its namespace.
    pub fn node_path(&self) -> &str {
        self.held.node_path()
    }

    fn lost_before(&self) -> Error {
        Error::Lost { lock: M::LOCK, path: Arc::clone(&self.held.path) }
    }
}

impl Guard<Exclusive> {
    pub(crate) fn exclusive(held: Held) -> Self {
        Guard::of(held, Exclusive)
    }

    /// Returns another guard on the same hold. The lock is released with the last of its guards.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock is no longer held.
    pub fn reenter(&self) -> Result<Self, Error> {
        if !self.is_held() {
            return Err(self.lost_before());
        }
        Ok(Guard { held: Arc::clone(&self.held), mode: Exclusive })
    }
}

impl Guard<Read> {
    pub(crate) fn read(held: Held) -> Self {
        Guard::of(held, Read)
    }
}

impl Guard<Write> {
    pub(crate) fn write(held: Held, reads: &LockLine) -> Self {
        Guard::of(held, Write { reads: reads.clone() })
    }

    /// Turns this guard into one for reading. No other participant can write in between: one transaction exchanges the
    /// node for a reader's node at the same place. Readers that wait only for this guard enter then. Fences of this
    /// guard are refused from then on; the token stays the same.
    ///
    /// Without a connection it waits for one while the lock is held. A request to release that came before does not
    /// count for the new guard, nor do watches: call [`lost`](Self::lost), [`run`](Self::run) or
    /// [`on_revoke`](Self::on_revoke) again.
    ///
    /// ```no_run
    /// use zookeeper_recipes::read_write_lock::{Error, InterProcessReadWriteLock};
    ///
    /// # async fn example(lock: InterProcessReadWriteLock) -> Result<(), Error> {
    /// let guard = lock.write().acquire().await?;
    /// // Write here. No other participant writes between what was written and what is read below.
    /// let guard = guard.downgrade().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The lock is released after any error, in the background.
    ///
    /// * [`Error::Lost`] if the lock was no longer held. Another participant may have written.
    /// * [`Error::Client`] if the server refused the transaction, for example without permission.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released in the background.
    pub async fn downgrade(self) -> Result<Guard<Read>, Error> {
        let lost = self.lost_before();
        if !self.is_held() {
            return Err(lost);
        }
        // No other guard shares the hold: only a mutex is entered again.
        let Some(held) = Arc::into_inner(self.held) else { return Err(lost) };
        let path = Arc::clone(&held.path);
        match self.mode.reads.downgrade(held).await {
            Ok(Some(held)) => Ok(Guard::read(held)),
            Ok(None) => Err(lost),
            Err(error) => Err(Error::client(Write::LOCK, &path, error)),
        }
    }
}

impl<M: Mode> fmt::Debug for Guard<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("mode", &M::NAME).field("held", &self.held).finish_non_exhaustive()
    }
}
