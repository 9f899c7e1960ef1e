//! Several locks as one: Curator's `InterProcessMultiLock`.
//!
//! All of the locks are held, or none. They are acquired one after the other, in the order of their paths, whatever
//! order they were given in. So multi-locks never wait for each other in a circle.
//!
//! ```no_run
//! use std::time::Duration;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::multi_lock::InterProcessMultiLock;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let accounts = ["/accounts/alice", "/accounts/bob"];
//! let locks = InterProcessMultiLock::new(&client, accounts)?;
//! if let Some(guard) = locks.acquire_timeout(Duration::from_secs(5)).await? {
//!     // Dropped at the next await that waits, once one of the locks is lost.
//!     let done = guard.run(async { /* move money */ }).await;
//!     guard.release().await?;
//!     done?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The order
//!
//! The paths are compared byte by byte, as the servers name them: with the namespace of the client. A process that
//! acquires some of the same locks one by one, in Java too, must keep to that order. Otherwise it and a multi-lock can
//! wait for each other forever. Acquiring a lock with a timeout ends such a wait.
//!
//! A caller that already holds one of the locks waits for itself: release that guard first, or acquire that lock only
//! as one of these.
//!
//! # When things fail
//!
//! Each lock behaves as the [rules](crate#when-things-fail) and its own page say. T is the session timeout that the
//! servers granted.
//!
//! | event | what happens |
//! |---|---|
//! | connection suspended, holder, policy [`Standard`] | All locks are lost. Their nodes stay until the drop. |
//! | connection suspended, holder, policy [`Session`] | All locks last until the lease expires, never longer than T. |
//! | connection suspended while waiting for one | If earlier locks are lost, the call releases all and restarts. |
//! | session lost, holder | All locks are lost. [`release`](MultiLockGuard::release) returns an error. |
//! | session lost while waiting for one | The call restarts in the next session, if there is time. |
//! | node of one lock deleted by another client | All count as lost, once that is noticed. The fence is refused. |
//! | reply lost | As for each lock: no second node, no node left behind. |
//! | time over, or an error | All acquired locks are released. A call with a timeout waits for that. |
//! | process stopped for longer than T | The next `is_held()` returns false. A write with the fence is refused. |
//!
//! # What it costs
//!
//! Three requests for each free lock: it is acquired in one round trip, and all are released in one.
//!
//! # The znodes
//!
//! It has no znodes of its own, only those of its locks.
//!
//! [`Standard`]: crate::ErrorPolicy::Standard
//! [`Session`]: crate::ErrorPolicy::Session

mod acquire;
mod guard;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::guard::MultiLockGuard;
use crate::client::Client;
use crate::contender::lock::LockLine;
use crate::mutex::InterProcessMutex;
#[cfg(feature = "read-write-lock")]
use crate::read_write_lock::{ReadLock, WriteLock};
#[doc(inline)]
pub use crate::recipes::lock::{Error, LockKind, LockLost};

/// One of the locks of an [`InterProcessMultiLock`]: made from an [`InterProcessMutex`], a
/// [`ReadLock`] or a [`WriteLock`].
#[derive(Debug, Clone)]
pub struct Lock(LockLine);

impl From<InterProcessMutex> for Lock {
    fn from(mutex: InterProcessMutex) -> Self {
        Lock(mutex.into_line())
    }
}

#[cfg(feature = "read-write-lock")]
impl From<ReadLock> for Lock {
    fn from(lock: ReadLock) -> Self {
        Lock(lock.into_line())
    }
}

#[cfg(feature = "read-write-lock")]
impl From<WriteLock> for Lock {
    fn from(lock: WriteLock) -> Self {
        Lock(lock.into_line())
    }
}

/// Several locks as one. Cheap to clone. Any number of tasks may use it.
#[derive(Clone)]
pub struct InterProcessMultiLock {
    /// Sorted by their paths on the server.
    lines: Arc<[LockLine]>,
}

impl InterProcessMultiLock {
    /// Returns the mutexes at these paths as one lock, each with default options.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if a path is malformed.
    /// [`Error::Closed`] if the client has been closed. Otherwise as [`of`](Self::of).
    pub fn new<T: Into<String>>(client: &Client, paths: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        let mutex = |path: T| {
            let path = path.into();
            client.open_path(&path).map_err(|error| Error::client(LockKind::MultiLock, &path, error))?;
            InterProcessMutex::new(client, path).map_err(|error| invalid(error.to_string()))
        };
        Self::of(paths.into_iter().map(mutex).collect::<Result<Vec<_>, _>>()?)
    }

    /// Returns these locks as one. If they are of several kinds, convert each into a [`Lock`].
    ///
    /// ```no_run
    /// use zookeeper_recipes::Client;
    /// use zookeeper_recipes::multi_lock::{InterProcessMultiLock, Lock};
    /// use zookeeper_recipes::mutex::InterProcessMutex;
    /// use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
    ///
    /// # fn example(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = InterProcessMutex::new(client, "/accounts/alice")?;
    /// let rates = InterProcessReadWriteLock::new(client, "/rates")?;
    /// let both = InterProcessMultiLock::of([Lock::from(mutex), Lock::from(rates.read())])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there are none, if two have the same path (the second would wait for the first), or
    /// if they belong to different clients: then no transaction could carry the fence of all.
    pub fn of<L: Into<Lock>>(locks: impl IntoIterator<Item = L>) -> Result<Self, Error> {
        let mut lines: Vec<LockLine> = locks.into_iter().map(|lock| lock.into().0).collect();
        lines.sort_by(|one, other| one.dir().cmp(other.dir()));
        let Some(first) = lines.first() else {
            return Err(invalid("there are no locks; name at least one".into()));
        };
        if let Some(other) = lines.iter().find(|line| !line.is_of_the_client_of(first)) {
            let (first, other) = (first.path(), other.path());
            return Err(invalid(format!(
                "the locks at {first} and {other} belong to different clients; use one client"
            )));
        }
        if let Some(twice) = lines.windows(2).find(|two| two[0].dir() == two[1].dir()) {
            return Err(invalid(format!("the path {} is given twice; give each lock once", twice[0].path())));
        }
        Ok(InterProcessMultiLock { lines: lines.into() })
    }

    /// Waits for all locks without a limit. If locks that it has acquired are lost meanwhile, it starts over.
    ///
    /// # Errors
    /// [`Error::Client`] if a node could not be created or the waiters could not be read, for example without
    /// permission. [`Error::Closed`] if the client was closed, or the runtime behind it has ended. All locks that were
    /// acquired are released in the background.
    ///
    /// # Cancel safety
    /// Cancel safe: all places are given up, and their nodes are deleted in the background.
    pub async fn acquire(&self) -> Result<MultiLockGuard, Error> {
        acquire::without_limit(&self.lines).await
    }

    /// Waits for all locks like [`acquire`](Self::acquire), but for at most `timeout` together. This bounds the whole
    /// call: connecting, creating the nodes, waiting and leaving. The last quarter of the timeout, at most 2 s, is
    /// reserved for leaving.
    ///
    /// `None` means that another participant was ahead at one of the locks, and that this call has left no node.
    ///
    /// # Errors
    /// * [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) if no other participant was seen ahead at the last lock
    ///   that the call waited for, for example because no server could be asked in time. A zero timeout returns it at
    ///   once, without a request; [`try_acquire`](Self::try_acquire) asks without waiting.
    /// * [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if it could not be confirmed in time that all
    ///   nodes are gone. They are deleted in the background, at the latest with the session.
    /// * Otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<MultiLockGuard>, Error> {
        acquire::in_time(&self.lines, timeout).await
    }

    /// Returns all locks if they are free, or `None` if another participant holds one of them or waits for it. It waits
    /// for the servers only, and at most for the client's connection timeout.
    ///
    /// # Errors
    /// * [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) if no server could be asked, or none confirmed that the
    ///   session is alive, in time.
    /// * [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if it could not be confirmed in time that all
    ///   nodes are gone. They are deleted in the background.
    /// * Otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MultiLockGuard>, Error> {
        acquire::if_free(&self.lines).await
    }

    /// Returns the paths of the locks, in the order in which they are acquired.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| &**line.path())
    }
}

impl fmt::Debug for InterProcessMultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.paths().collect();
        f.debug_struct("InterProcessMultiLock").field("paths", &paths).finish_non_exhaustive()
    }
}

fn invalid(why: String) -> Error {
    Error::InvalidOption { lock: LockKind::MultiLock, path: "".into(), why }
}
