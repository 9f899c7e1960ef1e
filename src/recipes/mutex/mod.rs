//! A lock with one holder at a time, across processes and machines: Curator's `InterProcessMutex`.
//!
//! Every caller that wants the lock creates a node in one directory. The first node holds the lock, and the others wait
//! in the order of arrival. Java services that use Curator's mutex on the same path wait in the same order.
//!
//! ```no_run
//! use std::time::Duration;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::mutex::InterProcessMutex;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let mutex = InterProcessMutex::new(&client, "/my-service/lock")?;
//! let timeout = Duration::from_secs(5);
//! if let Some(guard) = mutex.acquire_timeout(timeout).await? {
//!     // Dropped at the next await that waits, once the lock is lost.
//!     let done = guard.run(async { /* the critical section */ }).await;
//!     guard.release().await?;
//!     done?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a holder can rely on
//!
//! [`MutexGuard::is_held`] compares the clock at each call. It turns false before the ensemble can give the lock to
//! another participant, even if the process was stopped for longer than its session. A clock cannot cover four cases:
//!
//! * a virtual machine that is paused or restored;
//! * servers that end the session before its timeout, because of an administrator or because they lost their data;
//! * an operator who deletes the holder's node;
//! * servers that grant different session timeouts, in a rare case that the [rules](crate#when-things-fail) describe.
//!
//! In addition, any process can be stopped between the check and the write. Writes that carry the
//! [`fence`](MutexGuard::fence) are safe in every case. So are those that carry the
//! [token](MutexGuard::fencing_token) to a store that compares it, unless the servers lost their data: tokens then
//! start again from a smaller number.
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
//! | reconnected in the same session, holder | A lost guard stays lost. With [`Session`], others stay held. |
//! | reconnected in the same session, waiter | The waiter verifies its node and keeps its place. |
//! | session lost, holder | The lock is lost. [`release`](MutexGuard::release) returns an error. |
//! | session lost, waiter | The waiter creates a new node in the next session, behind those that wait by then. |
//! | holder's node deleted by another client | A holder that watches its node is notified. The fence is refused. |
//! | waiter's node deleted by another client | The waiter creates a new node. |
//! | reply to a create lost | The waiter finds its node by name, or creates it again. It never has two nodes. |
//! | reply to a delete lost | The delete is repeated until the node is gone, even after the guard was dropped. |
//! | outcome unknown at a deadline | A timed call returns `OutcomeUnknown`. The node is deleted in the background. |
//! | process stopped for longer than T | The next `is_held()` returns false. A write with the fence is refused. |
//!
//! A holder watches its node if it waited right behind the holder before it, or if it has called
//! [`lost`](MutexGuard::lost), [`run`](MutexGuard::run) or [`on_revoke`](MutexGuard::on_revoke).
//!
//! Always drop or release a guard, even a lost one. Until you do, its node keeps its place while the session lives, and
//! blocks the other waiters. A lost guard does not recover: acquire the lock again.
//!
//! # Re-entering
//!
//! A second [`acquire`](InterProcessMutex::acquire) waits for the release of the first, even in the same task. Tasks
//! are not threads: if the lock compared callers, two branches of one `join!` would both get it.
//! [`MutexGuard::reenter`] re-enters explicitly. It returns another guard on the same hold, and the lock is released
//! with the last guard.
//!
//! [`Standard`]: crate::ErrorPolicy::Standard
//! [`Session`]: crate::ErrorPolicy::Session

mod builder;

use std::fmt;

pub use self::builder::InterProcessMutexBuilder;
use crate::client::Client;
use crate::contender::held::Held;
use crate::contender::lock::LockLine;
use crate::contender::revoke::ask_to_release;
#[doc(inline)]
pub use crate::recipes::lock::{Error, LockKind, LockLost};
use crate::recipes::lock::{Exclusive, Guard, lock_calls};

/// The guard of a mutex that is held.
#[doc(alias = "Locker")]
pub type MutexGuard = Guard<Exclusive>;

/// A lock across processes. Cheap to clone. Any number of tasks may use one mutex, and each acquire takes its own
/// place.
///
/// A mutex that is not held costs nothing. While a lock is held, and for the next waiter, the client keeps its lease,
/// at the cost of six small requests per session timeout. A waiter further back costs nothing.
#[doc(alias = "InterProcessLock")]
#[derive(Clone)]
pub struct InterProcessMutex {
    line: LockLine,
}

impl InterProcessMutex {
    /// Returns a mutex at `path` with default options: no data, and no other kinds of nodes.
    ///
    /// # Errors
    /// As [`InterProcessMutexBuilder::build`].
    pub fn new(client: &Client, path: impl Into<String>) -> Result<Self, Error> {
        InterProcessMutex::builder(client, path).build()
    }

    /// Returns a builder for a mutex at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> InterProcessMutexBuilder {
        InterProcessMutexBuilder::new(client, path.into())
    }

    /// Returns the paths of all participants' nodes in order, the holder's first. [`revoke`] takes such a path.
    ///
    /// # Errors
    /// [`Error::Client`] if a request to ZooKeeper failed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    #[doc(alias = "getParticipantNodes")]
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        self.line.participants().await.map_err(|error| self.error(error))
    }

    fn guard(&self, held: Held) -> MutexGuard {
        MutexGuard::exclusive(held)
    }
}

lock_calls!(InterProcessMutex, line, MutexGuard);

impl fmt::Debug for InterProcessMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterProcessMutex").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Asks the participant with this node to release, by writing Curator's mark into the node's data. A holder is notified
/// through [`MutexGuard::on_revoke`] (or Curator's `RevocationListener`) and decides what to do. It is not an error if
/// the node is gone.
///
/// ```no_run
/// # use zookeeper_recipes::{Client, mutex};
/// # async fn example(
/// #     client: Client,
/// #     mutex: mutex::InterProcessMutex,
/// # ) -> Result<(), mutex::Error> {
/// if let Some(holder) = mutex.participants().await?.first() {
///     mutex::revoke(&client, holder).await?;
/// }
/// # Ok(())
/// # }
/// ```
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
    ask_to_release(client, node_path).await.map_err(|error| Error::client(LockKind::Mutex, node_path, error))
}
