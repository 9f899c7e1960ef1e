//! A limited number of holders at a time, across processes and machines: Curator's `InterProcessSemaphoreV2`.
//!
//! A caller acquires one permit or several, all of them or none. Waiters get them in the order of arrival: a waiter for
//! many permits holds back those behind it that want fewer, as in `tokio::sync::Semaphore`. The permits of a call are
//! released together; to release them one by one, acquire each in a separate call. Java services that use Curator's
//! semaphore on the same path wait in the same order.
//!
//! ```no_run
//! use std::time::Duration;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::semaphore::InterProcessSemaphore;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! // At most three at a time.
//! let licences = InterProcessSemaphore::new(&client, "/my-service/licences", 3)?;
//! let timeout = Duration::from_secs(5);
//! if let Some(guard) = licences.acquire_timeout(1, timeout).await? {
//!     // Dropped at the next await that waits, once the permit is lost.
//!     let done = guard.run(async { /* the work that needs a licence */ }).await;
//!     guard.release().await?;
//!     done?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The number of permits
//!
//! [`permits`](InterProcessSemaphoreBuilder::permits) is a convention, as in Curator: all participants must use the
//! same number. [`permits_from`](InterProcessSemaphoreBuilder::permits_from) reads it from a node, which an operator
//! can change at any time, here or with Curator's `SharedCount`:
//!
//! ```no_run
//! use zookeeper_recipes::semaphore::InterProcessSemaphore;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::shared_value::SharedCount;
//!
//! # async fn example(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
//! let count = "/my-service/licence-count";
//! // Creates the node if it is missing. An existing number stays.
//! let number = SharedCount::count(client, count).seed(3).start().await?;
//! let licences = InterProcessSemaphore::builder(client, "/my-service/licences")
//!     .permits_from(count)
//!     .build()?;
//! let guard = licences.acquire(2).await?;
//! // Two are taken: the guard keeps them, and no permit is granted before one is free.
//! number.set(2).await?;
//! # drop(guard);
//! # Ok(())
//! # }
//! ```
//!
//! A call that begins after the number was lowered is never admitted by the old number. A call that is under way at
//! that moment may be. Holders keep their permits.
//!
//! With one permit, a semaphore is Curator's `InterProcessSemaphoreMutex`, on the same znodes. It is not a
//! [`mutex`](crate::mutex): its znodes differ, so the two cannot share a path, and it costs more requests.
//!
//! # What a holder can rely on
//!
//! [`SemaphoreGuard::is_held`] compares the clock at each call, with the limits that the
//! [mutex](crate::mutex#what-a-holder-can-rely-on) describes. Writes that carry the [`fence`](SemaphoreGuard::fence)
//! are safe in every case. A fencing token protects another store only if all permits are acquired in each call: see
//! [`SemaphoreGuard::fencing_token`].
//!
//! # When things fail
//!
//! T is the session timeout that the servers granted. A lease is the node of one permit, as in Curator.
//! [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) is the default policy of a client.
//!
//! | event | what happens |
//! |---|---|
//! | connection suspended, holder, policy [`Standard`] | The permits are lost. Their nodes stay until the drop. |
//! | connection suspended, holder, policy [`Session`] | They last until the session's lease expires, at most T. |
//! | connection suspended while waiting | The waiter keeps its place, and its leases if it is the first. |
//! | reconnected in the same session, holder | A lost guard stays lost. |
//! | session lost, holder | The permits are lost. [`release`](SemaphoreGuard::release) returns an error. |
//! | session lost, waiter | The waiter takes a new place in the next session, behind those that wait by then. |
//! | lease of a holder deleted | All permits of the guard are lost, once noticed. The fence is refused. |
//! | lease of a waiter deleted | The waiter creates another, after 50 ms, doubling up to 5 s. |
//! | node of a waiter in the line deleted | The waiter releases its leases and takes a new place. |
//! | number of permits lowered below what is taken | Holders are not notified. No permit is granted until enough are |
//! | | released. |
//! | number of permits raised | The first waiter is woken at once. |
//! | node of the number deleted, or no count | Calls fail, even the first waiter's. Holders keep their permits. |
//! | reply to a create lost | The lease is found by its name, or created again. It never exists twice. |
//! | reply to a delete lost | The delete is repeated until the lease is gone, even after the guard was dropped. |
//! | time over | The call releases all leases, and waits until they are gone. |
//! | an error | The call returns it. All leases are released in the background. |
//! | outcome unknown at a deadline | A timed call returns `OutcomeUnknown`. The nodes are deleted later. |
//! | process stopped for longer than T | The next `is_held()` returns false. A write with the fence is refused. |
//!
//! Always drop or release a guard, even a lost one. Until you do, its leases occupy their permits while the session
//! lives.
//!
//! # What it costs
//!
//! Acquiring `n` free permits and releasing them takes 4 + 2`n` requests in three round trips, and one more request
//! with `permits_from`. Only the first waiter watches the leases: it takes one round trip to arm its watches, and one
//! at each change; if that shows too few permits, it arms them again. The watch on the number is still armed when the
//! waiter gets its permits, and costs one request to remove. A waiter further back costs as much as one for a mutex.
//!
//! # The znodes
//!
//! | znode | what |
//! |---|---|
//! | `<path>/locks/_c_<uuid>-lock-N` | the place of a caller in the line, until it has its permits |
//! | `<path>/leases/_c_<uuid>-lease-N` | one permit that is taken, or that the first in the line asks for |
//!
//! All children of `leases` count, whatever their names, as in Curator.
//!
//! [`Standard`]: crate::ErrorPolicy::Standard
//! [`Session`]: crate::ErrorPolicy::Session

mod attempt;
mod builder;
mod guard;
mod leases;
mod permits;
mod shared;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::attempt::PermitAttempt;
pub use self::builder::InterProcessSemaphoreBuilder;
pub use self::guard::SemaphoreGuard;
use self::permits::Permits;
use self::shared::Shared;
use crate::client::session::Session;
use crate::client::{self, Client};
use crate::contender::held::Held;
use crate::contender::{Contender, Hold};
use crate::engine;
use crate::layout::semaphore::{LEASES, digits_of_lease};
#[doc(inline)]
pub use crate::recipes::lock::{Error, LockKind, LockLost};
use crate::util::path::join;

/// The most permits that one call may ask for: each is a node, and all are created at once.
const MOST_AT_ONCE: u32 = 1000;

/// A semaphore across processes. Cheap to clone. Any number of tasks may use one semaphore, and each acquire takes its
/// own place.
#[doc(alias = "InterProcessSemaphoreV2")]
#[doc(alias = "InterProcessSemaphoreMutex")]
#[derive(Clone)]
pub struct InterProcessSemaphore {
    shared: Arc<Shared>,
}

impl InterProcessSemaphore {
    /// Returns a semaphore at `path` with this number of permits. Its nodes have no data.
    ///
    /// # Errors
    /// As [`InterProcessSemaphoreBuilder::build`].
    pub fn new(client: &Client, path: impl Into<String>, permits: u32) -> Result<Self, Error> {
        InterProcessSemaphore::builder(client, path).permits(permits).build()
    }

    /// Returns a builder for a semaphore at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> InterProcessSemaphoreBuilder {
        InterProcessSemaphoreBuilder::new(client, path.into())
    }

    /// Waits for `n` permits without a limit. If the session is lost meanwhile, it takes a new place in the next
    /// session.
    ///
    /// A caller that has permits and waits for more can wait forever, as others may do the same: acquire all that you
    /// need in one call. (Curator's `acquire(n)` takes one permit after the other.) With
    /// [`permits_from`](InterProcessSemaphoreBuilder::permits_from), a caller that wants more permits than the number
    /// in force waits until that is raised, and so do those behind it.
    ///
    /// # Errors
    /// * [`Error::InvalidOption`] if `n` is 0, more than 1000, or more than the fixed number of permits. Nothing is
    ///   sent.
    /// * [`Error::Client`] if a node could not be created or the leases could not be read, for example without
    ///   permission, or if the node that [`permits_from`](InterProcessSemaphoreBuilder::permits_from) names is missing
    ///   or has data that is not a count.
    /// * [`Error::Closed`] if the client was closed, or the runtime behind it has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: the place is given up, and all nodes are deleted in the background.
    pub async fn acquire(&self, n: u32) -> Result<SemaphoreGuard, Error> {
        let attempt = self.attempt(n)?;
        let held = self.shared.acquire.without_limit(attempt).await.map_err(|error| self.error(error))?;
        Ok(self.guard(held))
    }

    /// Waits for `n` permits like [`acquire`](Self::acquire), but for at most `timeout`. This bounds the whole call:
    /// connecting, creating the nodes, waiting and leaving. The last eighth of the timeout, at most 1 s, is reserved
    /// for leaving.
    ///
    /// `None` means that there were not enough permits or that another participant was ahead, and that this call has
    /// left no node.
    ///
    /// # Errors
    /// * [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) if neither was seen: no server could be asked in time, or
    ///   there were permits and no server confirmed in time that the session is alive. A zero timeout returns it at
    ///   once, without a request; [`try_acquire`](Self::try_acquire) asks without waiting.
    /// * [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if it could not be confirmed in time that all
    ///   nodes are gone. They are deleted in the background, at the latest with the session.
    /// * Otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, n: u32, timeout: Duration) -> Result<Option<SemaphoreGuard>, Error> {
        let attempt = self.attempt(n)?;
        let held = self.shared.acquire.for_at_most(attempt, timeout).await.map_err(|error| self.error(error))?;
        Ok(held.map(|held| self.guard(held)))
    }

    /// Returns a guard if there are `n` permits now, or `None` if there are not or participants ahead need them. It
    /// waits for the servers, and for participants that acquire at the same moment, but at most for the client's
    /// connection timeout.
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
    pub async fn try_acquire(&self, n: u32) -> Result<Option<SemaphoreGuard>, Error> {
        let attempt = self.attempt(n)?;
        let held = self.shared.acquire.if_free(attempt).await.map_err(|error| self.error(error))?;
        Ok(held.map(|held| self.guard(held)))
    }

    /// Returns the paths of all leases' nodes, in the order of creation: one for each permit that is taken, and one for
    /// each that the first waiter asks for. All children of the directory count, whatever their names, as in Curator.
    ///
    /// # Errors
    /// [`Error::Client`] if a request to ZooKeeper failed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    #[doc(alias = "getParticipantNodes")]
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        let dir = join(self.path(), LEASES);
        let list = |session: &Arc<Session>, full: &str| {
            let listed = session.list_children(full);
            async move {
                match listed.await {
                    Ok((names, _)) => Ok(names),
                    Err(engine::Error::NoNode) => Ok(Vec::new()),
                    Err(error) => Err(error),
                }
            }
        };
        let core = self.shared.acquire.client.core();
        let listed = core.read("list the leases at", &dir, list).await;
        let mut names = listed.map_err(|error| self.error(error))?;
        names.sort_by(|one, other| digits_of_lease(one).cmp(digits_of_lease(other)));
        Ok(names.iter().map(|name| join(&dir, name)).collect())
    }

    /// Returns the path of the semaphore.
    pub fn path(&self) -> &str {
        &self.shared.acquire.path
    }

    /// Begins a call that asks for `n` permits.
    fn attempt(&self, n: u32) -> Result<PermitAttempt<'_>, Error> {
        let most = match self.shared.permits {
            Permits::Fixed(permits) => permits.min(MOST_AT_ONCE),
            Permits::From(_) => MOST_AT_ONCE,
        };
        if n == 0 || n > most {
            let why = format!("{n} permits cannot be acquired in one call; 1 to {most} can");
            return Err(Error::InvalidOption {
                lock: LockKind::Semaphore,
                path: Arc::clone(&self.shared.acquire.path),
                why,
            });
        }
        // It is at most MOST_AT_ONCE.
        Ok(PermitAttempt::new(&self.shared, n as usize))
    }

    /// Makes a guard of what was acquired, and gives up the place in the line.
    fn guard(&self, (attempt, holds): (PermitAttempt<'_>, Vec<(Contender, Hold)>)) -> SemaphoreGuard {
        drop(attempt);
        let acquire = &self.shared.acquire;
        let path = &acquire.path;
        let held = |(contender, hold)| Held::new(acquire, contender, hold);
        let guard = SemaphoreGuard::new(path, holds.into_iter().map(held).collect());
        let (permits, token) = (guard.permits(), guard.fencing_token());
        tracing::debug!(event = "permits_acquired", path = &**path, permits, token, "permits held");
        guard
    }

    fn error(&self, error: client::Error) -> Error {
        Error::client(LockKind::Semaphore, self.path(), error)
    }
}

impl fmt::Debug for InterProcessSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterProcessSemaphore").field("path", &self.path()).finish_non_exhaustive()
    }
}
