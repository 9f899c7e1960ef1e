//! A lock with many readers or one writer at a time, across processes and machines: Curator's
//! `InterProcessReadWriteLock`.
//!
//! Every caller that wants to read or write creates a node in one directory. A writer waits until no node is ahead of
//! its own. A reader waits until no writer's node is ahead of its own, so all readers ahead of the first writer hold
//! the lock together. A reader never overtakes a waiting writer, so writers are not starved. Java services that use
//! Curator's lock on the same path wait in the same order.
//!
//! ```no_run
//! use std::time::Duration;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let lock = InterProcessReadWriteLock::new(&client, "/my-service/index")?;
//!
//! let reading = lock.read().acquire().await?;
//! reading.run(async { /* others may read now, and none writes */ }).await?;
//! reading.release().await?;
//!
//! let timeout = Duration::from_secs(5);
//! if let Some(writing) = lock.write().acquire_timeout(timeout).await? {
//!     writing.run(async { /* no other reads or writes */ }).await?;
//!     let reading = writing.downgrade().await?;
//!     reading.run(async { /* others may read too; none has written in between */ }).await?;
//!     reading.release().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a holder can rely on
//!
//! The same as the holder of a mutex: [`ReadGuard::is_held`] and [`WriteGuard::is_held`] compare the clock at each
//! call, and turn false before the ensemble can admit a participant that this guard excludes. The
//! [rules](crate#when-things-fail) list the cases that a clock cannot cover. Writes that carry the
//! [`fence`](WriteGuard::fence) are safe in every case.
//!
//! # No upgrade, no re-entering
//!
//! A [`ReadGuard`] cannot become a [`WriteGuard`]. In Curator, a reader that asks for the write lock waits for itself
//! forever. Here it does too if it keeps its guard: each acquire takes its own place, even in the same task. For the
//! same reason, do not acquire a second read lock while you hold one: if a writer has come in between, you wait for the
//! writer, and the writer waits for you. Instead, share the guard in an [`Arc`](std::sync::Arc).
//!
//! The other direction is [`WriteGuard::downgrade`]. (In Curator: acquire the read lock while holding the write lock,
//! then release the latter.)
//!
//! # When things fail
//!
//! T is the session timeout that the servers granted. [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) is the
//! default policy of a client.
//!
//! | event | what happens |
//! |---|---|
//! | connection suspended, policy [`Standard`] | The lock is lost. Its node stays until the guard is dropped. |
//! | connection suspended, policy [`Session`] | The lock lasts until the lease expires, never longer than T. |
//! | connection suspended while waiting | The waiter keeps its node and its place, with either policy. |
//! | reconnected in the same session, holder | A lost guard stays lost. |
//! | reconnected in the same session, waiter | The waiter verifies its node and keeps its place. |
//! | session lost, holder | The lock is lost. `release` returns an error. |
//! | session lost, waiter | The waiter creates a new node in the next session, behind those that wait by then. |
//! | holder's node deleted by another client | A holder that watches its node is notified. The fence is refused. |
//! | waiter's node deleted by another client | The waiter creates a new node. |
//! | reply to a create lost | The waiter finds its node by name, or creates it again. It never has two nodes. |
//! | reply to a downgrade lost, policy [`Standard`] | The lock is lost with the connection. |
//! | reply to a downgrade lost, policy [`Session`] | The call looks for the new node, or repeats the transaction. |
//! | reply to a delete lost | The delete is repeated until the node is gone, even after the guard was dropped. |
//! | outcome unknown at a deadline | A timed call returns `OutcomeUnknown`. The node is deleted in the background. |
//! | process stopped for longer than T | The next `is_held()` returns false. A write with the fence is refused. |
//!
//! A holder watches its node from its first call of `lost`, `run` or `on_revoke` on.
//!
//! Always drop or release a guard, even a lost one. Until you do, its node keeps its place while the session lives, and
//! blocks those that wait for it.
//!
//! # What it costs
//!
//! A free lock is acquired and released with 3 requests in two round trips. A downgrade is one request. When a writer
//! leaves, a hundred readers behind it get one event each, and send nothing.
//!
//! # The znodes
//!
//! Curator's: `_c_<uuid>-__READ__<number>` and `_c_<uuid>-__WRIT__<number>`, ephemeral and sequential, in one order. A
//! downgrade creates a reader's node with the number of the writer's node, as in Curator; here, one transaction creates
//! it and deletes the writer's node.
//!
//! [`Standard`]: crate::ErrorPolicy::Standard
//! [`Session`]: crate::ErrorPolicy::Session

mod builder;

use std::fmt;

pub use self::builder::InterProcessReadWriteLockBuilder;
use crate::client::Client;
use crate::contender::held::Held;
use crate::contender::lock::LockLine;
use crate::contender::revoke::ask_to_release;
#[doc(inline)]
pub use crate::recipes::lock::{Error, LockKind, LockLost};
use crate::recipes::lock::{Guard, Read, Write, lock_calls};

/// The guard of a lock that is held for reading, beside other readers.
///
/// It cannot become a [`WriteGuard`]: two readers that both waited for the other to go would wait forever. Release it
/// and acquire the write lock; others may write in between.
pub type ReadGuard = Guard<Read>;

/// The guard of a lock that is held for writing, alone.
pub type WriteGuard = Guard<Write>;

/// A lock across processes, with many readers or one writer. Cheap to clone. Any number of tasks may use one lock, and
/// each acquire takes its own place.
///
/// A lock that is not held costs nothing. While it is held, and for waiters that will hold it without another request,
/// the client keeps its lease, at the cost of six small requests per session timeout, however many guards there are.
#[derive(Clone)]
pub struct InterProcessReadWriteLock {
    reads: LockLine,
    writes: LockLine,
}

/// The lock for reading: [`InterProcessReadWriteLock::read`].
#[derive(Clone)]
pub struct ReadLock {
    reads: LockLine,
}

/// The lock for writing: [`InterProcessReadWriteLock::write`].
#[derive(Clone)]
pub struct WriteLock {
    reads: LockLine,
    writes: LockLine,
}

impl InterProcessReadWriteLock {
    /// Returns a lock at `path` with default options: no data, and no other kinds of nodes.
    ///
    /// # Errors
    /// As [`InterProcessReadWriteLockBuilder::build`].
    pub fn new(client: &Client, path: impl Into<String>) -> Result<Self, Error> {
        InterProcessReadWriteLock::builder(client, path).build()
    }

    /// Returns a builder for a lock at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> InterProcessReadWriteLockBuilder {
        InterProcessReadWriteLockBuilder::new(client, path.into())
    }

    /// Returns the lock for reading.
    #[doc(alias = "readLock")]
    pub fn read(&self) -> ReadLock {
        ReadLock { reads: self.reads.clone() }
    }

    /// Returns the lock for writing.
    #[doc(alias = "writeLock")]
    pub fn write(&self) -> WriteLock {
        WriteLock { reads: self.reads.clone(), writes: self.writes.clone() }
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &str {
        self.writes.path()
    }

    /// Returns the paths of all participants' nodes, readers and writers, in order. [`revoke`] takes such a path.
    ///
    /// # Errors
    /// [`Error::Client`] if a request to ZooKeeper failed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    #[doc(alias = "getParticipantNodes")]
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        let names = self.writes.participants().await;
        names.map_err(|error| Error::client(LockKind::ReadWriteLock, self.path(), error))
    }
}

lock_calls!(ReadLock, reads, ReadGuard);
lock_calls!(WriteLock, writes, WriteGuard);

impl ReadLock {
    fn guard(&self, held: Held) -> ReadGuard {
        ReadGuard::read(held)
    }
}

impl WriteLock {
    fn guard(&self, held: Held) -> WriteGuard {
        WriteGuard::write(held, &self.reads)
    }
}

impl fmt::Debug for ReadLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadLock").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl fmt::Debug for WriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteLock").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl fmt::Debug for InterProcessReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterProcessReadWriteLock").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Asks the participant with this node to release, by writing Curator's mark into the node's data. A holder is notified
/// through [`ReadGuard::on_revoke`] or [`WriteGuard::on_revoke`] (or Curator's `RevocationListener`) and decides what
/// to do. It is not an error if the node is gone.
///
/// # Errors
/// [`Error::Client`] if a request failed, for example with [`ErrorKind::NoAuth`](crate::ErrorKind::NoAuth). With
/// [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if the path is malformed, or its name does not end in the
/// number of a sequential node.
///
/// # Cancel safety
/// If the future was polled, the mark may be set even if the future is dropped.
#[doc(alias = "Revoker")]
#[doc(alias = "attemptRevoke")]
pub async fn revoke(client: &Client, node_path: &str) -> Result<(), Error> {
    ask_to_release(client, node_path).await.map_err(|error| Error::client(LockKind::ReadWriteLock, node_path, error))
}
