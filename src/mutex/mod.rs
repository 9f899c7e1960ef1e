//! A lock that one holder has at a time, across processes and machines: Curator's `InterProcessMutex`.
//!
//! Everybody who wants the lock places a node in one directory; the first of the line holds it, first come first served.
//! Java services that use Curator's mutex on the same path stand in the same line.
//!
//! ```no_run
//! use std::time::Duration;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::mutex::InterProcessMutex;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let mutex = InterProcessMutex::new(&client, "/my-service/lock")?;
//! if let Some(guard) = mutex.acquire_timeout(Duration::from_secs(5)).await? {
//!     // Dropped at its next await when the lock is lost.
//!     let done = guard.run(async { /* the critical section */ }).await;
//!     guard.release().await?;
//!     done?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a holder may believe
//!
//! A [`MutexGuard`] compares the clock whenever it is [asked](MutexGuard::is_held): it says no before the ensemble can have
//! given the lock to somebody else, also after the process was stopped for longer than its session. Beyond any clock are a
//! virtual machine that is paused or restored, servers that end the session before its time is over (by an administrator's
//! hand, or with their data), and an operator who deletes the holder's node. And between asking and writing any process can be
//! stopped. Writes that carry the [`fence`](MutexGuard::fence), or the
//! [token](MutexGuard::fencing_token) to a store that compares it, are safe in every case.
//!
//! With [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) a lock is lost as soon as the connection is in doubt; with
//! [`ErrorPolicy::Session`](crate::ErrorPolicy::Session) when the lease is over. What was lost never comes back: drop the
//! guard (or [release](MutexGuard::release) it, which is an error then) and acquire anew: its node stands in the line until the
//! guard goes, and while the session lives it keeps the others waiting. A call that waits for the lock survives both, and takes a new place when its session is lost.
//!
//! # Re-entering
//!
//! A second [`acquire`](InterProcessMutex::acquire) waits for the first to be released, also in the same task: tasks are not
//! threads, and two branches of one `join!` would both be let in if the lock looked at who asks. Re-entering is explicit:
//! [`MutexGuard::reenter`] makes another guard on the same hold, and the lock goes with the last of them.

mod builder;
mod error;
mod guard;
mod held;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

pub use self::builder::InterProcessMutexBuilder;
pub use self::error::Error;
pub use self::guard::{LockLost, MutexGuard};
use self::held::Held;
use crate::client::session::Session;
use crate::client::{self, Client, ErrorKind};
use crate::contender::{self, Hold, Line, News, REVOKED, Standing};
use crate::path::{self, join};

/// What its node's name ends in, before the number: Curator's.
const BASE: &str = "lock-";

/// Of the time that a call may take, this part (and at most that much) is kept for taking the place in line back, so that
/// the call can say for certain that it left nothing.
const TO_LEAVE: (u32, Duration) = (8, Duration::from_secs(1));

/// What a call has seen of the line by the time at which it gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// No answer yet.
    Nothing,
    /// No other participant ahead.
    Free,
    /// Another participant ahead.
    Another,
}

/// A lock across processes. Cheap to clone; any number of tasks may use one object, each acquire stands in line for itself.
///
/// By itself it costs nothing. While a lock is held, and for the next one in line, the client keeps its lease, at the cost of six
/// small requests a session timeout; a waiter further back costs nothing either.
#[derive(Clone)]
pub struct InterProcessMutex {
    client: Client,
    path: Arc<str>,
    line: Arc<Line>,
}

impl InterProcessMutex {
    /// A mutex at `path`, with default options.
    ///
    /// # Errors
    /// As [`InterProcessMutexBuilder::start`].
    pub fn new(client: &Client, path: impl Into<String>) -> Result<Self, Error> {
        InterProcessMutex::builder(client, path).start()
    }

    /// The options of a mutex at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> InterProcessMutexBuilder {
        InterProcessMutexBuilder::new(client, path.into())
    }

    /// Waits for the lock, as long as it takes: also through the loss of a session, after which a new place in line is taken.
    ///
    /// # Errors
    /// [`Error::Client`] if the line could not be entered or seen, such as for want of permission; [`Error::Closed`] if the
    /// client was closed, or the runtime behind it has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: the place in line is given up, and its node deleted in the background.
    pub async fn acquire(&self) -> Result<MutexGuard, Error> {
        // A loop over locks that are free must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut standing = self.stand();
        let hold = self.held(&mut standing, &mut Seen::Nothing).await?;
        Ok(self.guard(standing, hold))
    }

    /// As [`acquire`](Self::acquire), for no longer than `timeout` in all: for connecting, entering, waiting, and for leaving
    /// again. `None` means that another participant was ahead in the line, and that this call has left no node there. The last
    /// eighth of the time, at most a second, is reserved for leaving.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if no other participant was seen ahead: no server could be asked in time, or the lock was free and
    /// no server confirmed in time that the session is alive. A zero timeout returns it at once, without a request: see
    /// [`try_acquire`](Self::try_acquire), which asks without waiting. [`ErrorKind::OutcomeUnknown`] if it could not be confirmed
    /// in time that the node is gone: it is deleted in the background, at the latest with the session. Otherwise as
    /// [`acquire`](Self::acquire).
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
        let (mut standing, mut seen) = (self.stand(), Seen::Nothing);
        let waited = timeout_at(deadline - to_leave(timeout), self.held(&mut standing, &mut seen)).await;
        match waited {
            Ok(held) => {
                let hold = held?;
                Ok(Some(self.guard(standing, hold)))
            }
            Err(_) => {
                self.give_up(standing, deadline).await?;
                self.not_had(seen, timeout)
            }
        }
    }

    /// The lock if it is free; `None` if somebody holds it, or stands in line for it. Waits for nobody but the servers, and
    /// for these no longer than the client's connection timeout.
    ///
    /// A client that holds nothing, and has held nothing for some seconds, sends no heartbeats. Its first acquire has to prove
    /// that the session is alive: mostly by the very requests of the acquire, as the session's pings were answered a tick before;
    /// if none was, by two heartbeats one [tick](crate::ClientBuilder::tick_time) apart, and the call takes that long.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if no server could be asked, or none confirmed that the session is alive, in time;
    /// [`ErrorKind::OutcomeUnknown`] if it could not be confirmed in time that the node is gone: it is deleted in the background.
    /// Otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MutexGuard>, Error> {
        tokio::task::coop::consume_budget().await;
        let within = self.client.core().config.connection_timeout;
        let deadline = Instant::now() + within;
        let (mut standing, mut seen) = (self.stand(), Seen::Nothing);
        match timeout_at(deadline - to_leave(within), self.first(&mut standing, &mut seen)).await {
            Ok(Ok(Some(hold))) => Ok(Some(self.guard(standing, hold))),
            Ok(Err(error)) => Err(error),
            Ok(Ok(None)) | Err(_) => {
                self.give_up(standing, deadline).await?;
                self.not_had(seen, within)
            }
        }
    }

    /// The paths of the nodes in line, the holder's first. [`revoke`] takes one.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        let names = contender::names(&self.client, &self.path, &self.line.bases()).await;
        let names = names.map_err(|error| self.error(error))?;
        Ok(names.iter().map(|name| join(&self.path, name)).collect())
    }

    /// The path of the mutex.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn stand(&self) -> Standing {
        Standing::new(self.client.core(), &self.line)
    }

    /// Stands in line until the lock is held.
    async fn held(&self, standing: &mut Standing, seen: &mut Seen) -> Result<Hold, Error> {
        loop {
            // Whoever stands before us goes some day.
            if let Some(hold) = self.first(standing, seen).await? {
                return Ok(hold);
            }
        }
    }

    /// As `held`, but `None` when somebody stands before us.
    async fn first(&self, standing: &mut Standing, seen: &mut Seen) -> Result<Option<Hold>, Error> {
        loop {
            match standing.next().await {
                News::Held(hold) => return Ok(Some(hold)),
                News::Behind => {
                    *seen = Seen::Another;
                    return Ok(None);
                }
                News::Unproven if *seen == Seen::Nothing => *seen = Seen::Free,
                News::Failed(error) => return Err(self.error(error)),
                News::Closed => return Err(Error::Closed { path: Arc::clone(&self.path) }),
                news => tracing::debug!(path = &*self.path, ?news, "mutex"),
            }
        }
    }

    /// What to say when the time was over and nothing is left in the line.
    fn not_had(&self, seen: Seen, within: Duration) -> Result<Option<MutexGuard>, Error> {
        let why = match seen {
            Seen::Another => return Ok(None),
            Seen::Free => "the lock was free, but no server confirmed that the session is alive",
            Seen::Nothing => "no server could be asked",
        };
        let message =
            format!("acquire {}: {why} within {within:?}{}", self.path, self.client.core().why_not_connected());
        Err(self.error(client::Error::new(ErrorKind::TimedOut, message)))
    }

    /// Leaves the line; an error if it is not certain by the deadline that nothing of ours is left there.
    async fn give_up(&self, mut standing: Standing, deadline: Instant) -> Result<(), Error> {
        let why = match timeout_at(deadline, standing.leave()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => client::Error::from_backend("leave the line at", &self.path, error).to_string(),
            Err(_) => format!("leave the line at {}: no answer in time", self.path),
        };
        let cause = self.client.core().why_not_connected();
        let message = format!("{why}{cause}; nothing is held; the node, if there is one, is deleted in the background");
        Err(self.error(client::Error::new(ErrorKind::OutcomeUnknown, message)))
    }

    fn guard(&self, standing: Standing, hold: Hold) -> MutexGuard {
        tracing::debug!(path = &*self.path, token = hold.token(), "lock held");
        MutexGuard::new(Held::new(&self.client, &self.path, standing, hold))
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

/// Asks whoever stands in line with this node to let go, with Curator's mark in the node's data: a holder is told by
/// [`MutexGuard::on_revoke`] (or Curator's `RevocationListener`), and does as it likes. A node that is gone already is fine.
///
/// ```no_run
/// # use zookeeper_recipes::{Client, mutex};
/// # async fn example(client: Client, mutex: mutex::InterProcessMutex) -> Result<(), mutex::Error> {
/// if let Some(holder) = mutex.participants().await?.first() {
///     mutex::revoke(&client, holder).await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Client`], such as with [`ErrorKind::NoAuth`]; with [`ErrorKind::InvalidPath`] if the path is malformed, or its name
/// does not end in the number of a sequential node.
///
/// # Cancel safety
/// The mark may be set all the same if the future was polled.
pub async fn revoke(client: &Client, node_path: &str) -> Result<(), Error> {
    let error = |error: client::Error| Error::client(node_path, error);
    path::validate(node_path).map_err(|invalid| error(invalid.into()))?;
    if !is_sequential(node_path) {
        let why = "not the node of somebody in line, whose name ends in ten digits; see participants()";
        let message = format!("revoke {node_path}: {why}");
        return Err(error(client::Error::new(ErrorKind::InvalidPath, message)));
    }
    // As it sets the same mark each time, it may be repeated as a read may.
    let mark = |session: &Arc<Session>, full: &str| session.set_data(full, REVOKED, None);
    match client.core().read("revoke", node_path, mark).await {
        Err(gone) if gone.kind() == ErrorKind::NoNode => Ok(()),
        outcome => outcome.map(drop).map_err(error),
    }
}

/// Whether the name ends in a number as the server appends it. Whatever else the path names is not to be overwritten.
fn is_sequential(path: &str) -> bool {
    let digits = path.bytes().rev().take_while(u8::is_ascii_digit).count();
    digits >= 10
}
