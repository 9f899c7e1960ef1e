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
//! another participant, also if the process was stopped for longer than its session. A clock cannot cover four cases:
//!
//! * a virtual machine that is paused or restored;
//! * servers that end the session before its timeout, because of an administrator or because they lost their data;
//! * an operator who deletes the holder's node;
//! * servers that grant different session timeouts, in a rare case that the [rules](crate#when-things-fail) name.
//!
//! Besides, any process can be stopped between the check and the write. Writes that carry the
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
//! | reconnected in the same session, holder | A lost guard stays lost. |
//! | reconnected in the same session, waiter | The waiter verifies its node and keeps its place. |
//! | session lost, holder | The lock is lost. [`release`](MutexGuard::release) returns an error. |
//! | session lost, waiter | The waiter creates a new node in the next session, behind those that wait by then. |
//! | holder's node deleted by another client | A holder that watches its node is notified. The fence is refused. |
//! | waiter's node deleted by another client | The waiter creates a new node. |
//! | reply to a create lost | The waiter finds its node by name, or creates it again. It never has two nodes. |
//! | reply to a delete lost | The delete is repeated until the node is gone, also after the guard was dropped. |
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
//! A second [`acquire`](InterProcessMutex::acquire) waits for the release of the first, also in the same task. Tasks
//! are not threads: if the lock compared callers, two branches of one `join!` would both get it.
//! [`MutexGuard::reenter`] re-enters explicitly. It returns another guard on the same hold, and the lock is released
//! with the last guard.
//!
//! A caller that has waited for ten seconds, while this client held the lock all the time, finds a hint in the log
//! (INFO), once a wait.
//!
//! [`Standard`]: crate::ErrorPolicy::Standard
//! [`Session`]: crate::ErrorPolicy::Session

mod builder;
mod error;
mod guard;
mod hint;
mod shared;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

pub use self::builder::InterProcessMutexBuilder;
pub use self::error::Error;
pub use self::guard::{LockLost, MutexGuard};
use self::shared::Inner;
use crate::client::session::Session;
use crate::client::{self, Client, ErrorKind};
use crate::contender::{self, Contender, Hold, REVOKED, Spec, State};
use crate::path::join;

/// The end of a node's name before the number, as Curator writes it.
const BASE: &str = "lock-";

/// One in so many parts of a call's time, up to this limit, is reserved for leaving the line. So the call can tell for
/// certain that it left no node.
const TO_LEAVE: (u32, Duration) = (8, Duration::from_secs(1));

/// What a call has seen of the line when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// No answer yet.
    Nothing,
    /// No other participant ahead.
    Free,
    /// Another participant ahead.
    Another,
}

/// A lock across processes. A clone is cheap. Any number of tasks may use one mutex, and each acquire takes a place of
/// its own.
///
/// A mutex that is not held costs nothing. While a lock is held, and for the next waiter, the client keeps its lease,
/// at the cost of six small requests per session timeout. A waiter further back costs nothing either.
#[doc(alias = "InterProcessLock")]
#[derive(Clone)]
pub struct InterProcessMutex {
    client: Client,
    path: Arc<str>,
    spec: Arc<Spec>,
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

    /// Waits for the lock without a limit. If the session is lost meanwhile, it takes a new place in the next session.
    ///
    /// # Errors
    /// [`Error::Client`] if the node could not be created or the waiters could not be read, for example without
    /// permission. [`Error::Closed`] if the client was closed, or the runtime behind it has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: the place is given up, and its node is deleted in the background.
    pub async fn acquire(&self) -> Result<MutexGuard, Error> {
        // A loop over locks that are free must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut contender = self.stand();
        let hold = self.held(&mut contender, &mut Seen::Nothing).instrument(self.span()).await?;
        Ok(self.guard(contender, hold))
    }

    /// Waits for the lock like [`acquire`](Self::acquire), but for at most `timeout`. This bounds the whole call:
    /// connecting, creating the node, waiting and leaving. The last eighth of the timeout, at most 1 s, is reserved for
    /// leaving.
    ///
    /// `None` means that another participant was ahead, and that this call has left no node.
    ///
    /// # Errors
    /// * [`ErrorKind::TimedOut`] if no other participant was seen ahead: no server could be asked in time, or the lock
    ///   was free and no server confirmed in time that the session is alive. A zero timeout returns it at once, without
    ///   a request; [`try_acquire`](Self::try_acquire) asks without waiting.
    /// * [`ErrorKind::OutcomeUnknown`] if it could not be confirmed in time that the node is gone. It is deleted in the
    ///   background, at the latest with the session.
    /// * Otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<MutexGuard>, Error> {
        tokio::task::coop::consume_budget().await;
        if timeout.is_zero() {
            return self.not_had(Seen::Nothing, timeout);
        }
        let Some(deadline) = Instant::now().checked_add(timeout) else {
            return self.acquire().await.map(Some);
        };
        let (mut contender, mut seen) = (self.stand(), Seen::Nothing);
        let held = self.held(&mut contender, &mut seen).instrument(self.span());
        let waited = timeout_at(deadline - to_leave(timeout), held).await;
        match waited {
            Ok(held) => {
                let hold = held?;
                Ok(Some(self.guard(contender, hold)))
            }
            Err(_) => {
                self.give_up(contender, deadline).await?;
                self.not_had(seen, timeout)
            }
        }
    }

    /// Returns the lock if it is free, or `None` if another participant holds it or waits for it. It waits for the
    /// servers only, and at most for the client's connection timeout.
    ///
    /// A client that holds nothing, and has held nothing for some seconds, sends no heartbeats. Its first acquire must
    /// prove that the session is alive. Mostly the requests of the acquire itself do so, as the session's pings were
    /// answered a tick before. If none was, two heartbeats one [tick](crate::ClientBuilder::tick_time) apart do, and
    /// the call takes that long.
    ///
    /// # Errors
    /// * [`ErrorKind::TimedOut`] if no server could be asked, or none confirmed that the session is alive, in time.
    /// * [`ErrorKind::OutcomeUnknown`] if it could not be confirmed in time that the node is gone. It is deleted in the
    ///   background.
    /// * Otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MutexGuard>, Error> {
        tokio::task::coop::consume_budget().await;
        let within = self.client.core().config.connection_timeout;
        let deadline = Instant::now() + within;
        let (mut contender, mut seen) = (self.stand(), Seen::Nothing);
        let first = self.first(&mut contender, &mut seen).instrument(self.span());
        match timeout_at(deadline - to_leave(within), first).await {
            Ok(Ok(Some(hold))) => Ok(Some(self.guard(contender, hold))),
            Ok(Err(error)) => Err(error),
            Ok(Ok(None)) | Err(_) => {
                self.give_up(contender, deadline).await?;
                self.not_had(seen, within)
            }
        }
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
        let names = contender::names(&self.client, &self.path, &self.spec.bases()).await;
        let names = names.map_err(|error| self.error(error))?;
        Ok(names.iter().map(|name| join(&self.path, name)).collect())
    }

    /// Returns the path of the mutex.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn stand(&self) -> Contender {
        Contender::new(self.client.core(), &self.spec)
    }

    /// Waits until the lock is held.
    async fn held(&self, contender: &mut Contender, seen: &mut Seen) -> Result<Hold, Error> {
        if let Some(hold) = self.first(contender, seen).await? {
            return Ok(hold);
        }
        let _hint = hint::after_a_while(self.client.core(), &self.path);
        loop {
            // The contender ahead leaves at some time.
            if let Some(hold) = self.first(contender, seen).await? {
                return Ok(hold);
            }
        }
    }

    /// Waits like `held`, but returns `None` if a contender is ahead.
    async fn first(&self, contender: &mut Contender, seen: &mut Seen) -> Result<Option<Hold>, Error> {
        loop {
            match contender.next().await {
                State::Held(hold) => return Ok(Some(hold)),
                State::Behind => {
                    *seen = Seen::Another;
                    return Ok(None);
                }
                State::Unproven if *seen == Seen::Nothing => *seen = Seen::Free,
                State::Failed(error) => return Err(self.error(error)),
                State::Closed => return Err(Error::Closed { path: Arc::clone(&self.path) }),
                state => tracing::debug!(
                    event = "state_changed",
                    path = &*self.path,
                    state = state.name(),
                    node = state.node(),
                    "the contender has another state"
                ),
            }
        }
    }

    /// Returns the result of a call whose time is over and which has left no node.
    fn not_had(&self, seen: Seen, within: Duration) -> Result<Option<MutexGuard>, Error> {
        let why = match seen {
            Seen::Another => return Ok(None),
            Seen::Free => {
                format!("the lock was free, but no server confirmed within {within:?} that the session is alive")
            }
            Seen::Nothing if within.is_zero() => "a timeout of zero leaves no time to ask; use try_acquire()".into(),
            Seen::Nothing => format!("no server could be asked within {within:?}"),
        };
        let why = format!("{why}{}", self.client.core().why_not_connected());
        Err(self.error(client::Error::at(ErrorKind::TimedOut, "acquire", &self.path, why)))
    }

    /// Withdraws from the line. Fails if it is not certain by the deadline that no node of ours is left.
    async fn give_up(&self, mut contender: Contender, deadline: Instant) -> Result<(), Error> {
        const DOING: &str = "withdraw from";
        let error = match timeout_at(deadline, contender.leave()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => client::Error::from_backend(DOING, &self.path, error),
            Err(_) => client::Error::at(ErrorKind::OutcomeUnknown, DOING, &self.path, "no answer in time"),
        };
        let cause = self.client.core().why_not_connected();
        let note = format!("{cause}; nothing is held; the node, if there is one, is deleted in the background");
        Err(self.error(error.in_doubt(&note)))
    }

    fn guard(&self, contender: Contender, hold: Hold) -> MutexGuard {
        tracing::debug!(event = "lock_acquired", path = &*self.path, token = hold.token(), "lock held");
        MutexGuard::new(Inner::new(&self.client, &self.path, contender, hold))
    }

    /// The span of a call that acquires.
    fn span(&self) -> tracing::Span {
        tracing::info_span!("acquire", path = &*self.path)
    }

    fn error(&self, error: client::Error) -> Error {
        Error::client(&self.path, error)
    }
}

impl fmt::Debug for InterProcessMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterProcessMutex").field("path", &self.path).finish_non_exhaustive()
    }
}

fn to_leave(timeout: Duration) -> Duration {
    let (part, most) = TO_LEAVE;
    (timeout / part).min(most)
}

/// Asks the participant with this node to release, by writing Curator's mark into the node's data. A holder is notified
/// through [`MutexGuard::on_revoke`] (or Curator's `RevocationListener`) and decides what to do. It is no error if the
/// node is gone.
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
/// [`Error::Client`] if a request failed, for example with [`ErrorKind::NoAuth`]. With [`ErrorKind::InvalidPath`] if
/// the path is malformed, or its name does not end in the number of a sequential node.
///
/// # Cancel safety
/// If the future was polled, the mark may be set even if the future is dropped.
#[doc(alias = "Revoker")]
#[doc(alias = "attemptRevoke")]
pub async fn revoke(client: &Client, node_path: &str) -> Result<(), Error> {
    let error = |error: client::Error| Error::client(node_path, error);
    client.open_path(node_path).map_err(error)?;
    if !is_sequential(node_path) {
        let why = "not the node of a participant: its name must end in ten digits; see participants()";
        return Err(error(client::Error::at(ErrorKind::InvalidPath, "revoke", node_path, why)));
    }
    // It sets the same mark each time, so it may be repeated like a read.
    let mark = |session: &Arc<Session>, full: &str| session.set_data(full, REVOKED, None);
    match client.core().read("revoke", node_path, mark).await {
        Err(gone) if gone.kind() == ErrorKind::NoNode => Ok(()),
        outcome => outcome.map(drop).map_err(error),
    }
}

/// Returns whether the name ends in a number as the server appends it. The data of any other node must not be
/// overwritten.
fn is_sequential(path: &str) -> bool {
    let digits = path.bytes().rev().take_while(u8::is_ascii_digit).count();
    digits >= 10
}
