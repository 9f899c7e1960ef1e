//! A line whose contenders acquire a lock: without a limit, for a time, or only if it is free.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::held::Held;
use super::{Contender, Hold, REVOKED, Spec, State, hint};
use crate::client::{Client, Error, ErrorKind};
use crate::path::join;
use crate::util::wait::forever;

/// One in so many parts of a call's time, up to this limit, is reserved for leaving the line. So the call can tell for
/// certain that it left no node.
const TO_LEAVE: (u32, Duration) = (8, Duration::from_secs(1));

/// The largest data of a node. Every reader of the node receives it; this is plenty, and far below a node's limit of a
/// megabyte.
const MAX_DATA_BYTES: usize = 64 * 1024;

/// The error of work that was to run while a lock is held: the lock was lost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lock was lost")]
pub struct LockLost;

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

/// The time of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTime {
    /// What the caller has given it.
    pub(crate) timeout: Duration,
    /// It waits for the lock until then.
    pub(crate) wait_until: Instant,
    /// It has left the line by then.
    pub(crate) leave_by: Instant,
}

impl CallTime {
    /// Returns the time of a call that begins now; `None` if that is without a limit.
    pub(crate) fn of(timeout: Duration) -> Option<Self> {
        let leave_by = Instant::now().checked_add(timeout)?;
        Some(CallTime { timeout, wait_until: leave_by - to_leave(timeout), leave_by })
    }
}

/// The line of a lock, and how its contenders enter it.
#[derive(Clone)]
pub(crate) struct LockLine {
    client: Client,
    path: Arc<str>,
    spec: Arc<Spec>,
    /// What a caller should do instead that waits for its own lock; for the log.
    advice: &'static str,
}

impl LockLine {
    pub(crate) fn new(client: Client, path: Arc<str>, spec: Spec, advice: &'static str) -> Self {
        LockLine { client, path, spec: Arc::new(spec), advice }
    }

    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Exchanges what is held for a hold in this line, at the same place. `None` if it was lost.
    #[cfg(feature = "read-write-lock")]
    pub(crate) async fn downgrade(&self, held: Held) -> Result<Option<Held>, Error> {
        let Some(mut contender) = held.into_contender().await else { return Ok(None) };
        let hold = contender.downgrade(&self.spec).await?;
        Ok(hold.map(|hold| self.take(*contender, hold)))
    }

    /// Returns the directory on the server.
    #[cfg(feature = "multi-lock")]
    pub(crate) fn dir(&self) -> &str {
        &self.spec.dir
    }

    #[cfg(feature = "multi-lock")]
    pub(crate) fn is_of_the_client_of(&self, other: &LockLine) -> bool {
        Arc::ptr_eq(self.client.core(), other.client.core())
    }

    pub(crate) fn connection_timeout(&self) -> Duration {
        self.client.core().config.connection_timeout
    }

    /// Waits for the lock without a limit.
    pub(crate) async fn acquire(&self) -> Result<Held, Error> {
        // A loop over locks that are free must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut contender = self.stand();
        let hold = self.held(&mut contender, &mut Seen::Nothing).instrument(self.span()).await?;
        Ok(self.take(contender, hold))
    }

    /// Waits for the lock for at most `timeout`, leaving included. `None` if another contender was ahead.
    pub(crate) async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Held>, Error> {
        match CallTime::of(timeout) {
            Some(time) => self.acquire_in(time, forever()).await,
            None => self.acquire().await.map(Some),
        }
    }

    /// As `acquire_timeout`, with this time. When `stop` resolves first, it leaves the line, and returns `None`.
    pub(crate) async fn acquire_in(
        &self,
        time: CallTime,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Held>, Error> {
        tokio::task::coop::consume_budget().await;
        if time.timeout.is_zero() {
            return self.not_had(Seen::Nothing, time.timeout);
        }
        let (mut contender, mut seen) = (self.stand(), Seen::Nothing);
        let held = self.held(&mut contender, &mut seen).instrument(self.span());
        let waited = tokio::select! {
            biased;
            waited = timeout_at(time.wait_until, held) => waited.ok(),
            () = stop => {
                seen = Seen::Another;
                None
            }
        };
        match waited {
            Some(held) => {
                let hold = held?;
                Ok(Some(self.take(contender, hold)))
            }
            None => {
                self.give_up(contender, time.leave_by).await?;
                self.not_had(seen, time.timeout)
            }
        }
    }

    /// Takes the lock if it is free; `None` if another contender is ahead. Waits for the servers only.
    pub(crate) async fn try_acquire(&self) -> Result<Option<Held>, Error> {
        match CallTime::of(self.connection_timeout()) {
            Some(time) => self.try_in(time).await,
            None => self.acquire().await.map(Some),
        }
    }

    /// As `try_acquire`, with this time.
    pub(crate) async fn try_in(&self, time: CallTime) -> Result<Option<Held>, Error> {
        tokio::task::coop::consume_budget().await;
        let (mut contender, mut seen) = (self.stand(), Seen::Nothing);
        let first = self.first(&mut contender, &mut seen).instrument(self.span());
        match timeout_at(time.wait_until, first).await {
            Ok(Ok(Some(hold))) => Ok(Some(self.take(contender, hold))),
            Ok(Err(error)) => Err(error),
            Ok(Ok(None)) | Err(_) => {
                self.give_up(contender, time.leave_by).await?;
                self.not_had(seen, time.timeout)
            }
        }
    }

    /// Returns the paths of the participants' nodes in order.
    pub(crate) async fn participants(&self) -> Result<Vec<String>, Error> {
        let names = super::names(&self.client, &self.path, &self.spec.bases()).await?;
        Ok(names.iter().map(|name| join(&self.path, name)).collect())
    }

    /// Makes a hold of a contender into what a guard stands on.
    fn take(&self, contender: Contender, hold: Hold) -> Held {
        tracing::debug!(event = "lock_acquired", path = &*self.path, token = hold.token(), "lock held");
        Held::new(&self.client, &self.path, contender, hold)
    }

    fn stand(&self) -> Contender {
        Contender::new(self.client.core(), &self.spec)
    }

    /// Waits until the lock is held.
    async fn held(&self, contender: &mut Contender, seen: &mut Seen) -> Result<Hold, Error> {
        if let Some(hold) = self.first(contender, seen).await? {
            return Ok(hold);
        }
        let _hint = hint::after_a_while(self.client.core(), &self.path, self.advice);
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
                State::Failed(error) => return Err(error),
                State::Closed => return Err(Error::closed("client")),
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
    fn not_had(&self, seen: Seen, within: Duration) -> Result<Option<Held>, Error> {
        let why = match seen {
            Seen::Another => return Ok(None),
            Seen::Free => {
                format!("the lock was free, but no server confirmed within {within:?} that the session is alive")
            }
            Seen::Nothing if within.is_zero() => "a timeout of zero leaves no time to ask; use try_acquire()".into(),
            Seen::Nothing => format!("no server could be asked within {within:?}"),
        };
        let why = format!("{why}{}", self.client.core().why_not_connected());
        Err(Error::at(ErrorKind::TimedOut, "acquire", &self.path, why))
    }

    /// Withdraws from the line. Fails if it is not certain by the deadline that no node of ours is left.
    async fn give_up(&self, mut contender: Contender, deadline: Instant) -> Result<(), Error> {
        const DOING: &str = "withdraw from";
        let error = match timeout_at(deadline, contender.leave()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => Error::from_backend(DOING, &self.path, error),
            Err(_) => Error::at(ErrorKind::OutcomeUnknown, DOING, &self.path, "no answer in time"),
        };
        let cause = self.client.core().why_not_connected();
        let note = format!("{cause}; nothing is held; the node, if there is one, is deleted in the background");
        Err(error.in_doubt(&note))
    }

    /// The span of a call that acquires.
    fn span(&self) -> tracing::Span {
        tracing::info_span!("acquire", path = &*self.path)
    }
}

/// Checks the data of a lock's nodes. Returns what is wrong with it, and what is allowed.
pub(crate) fn check_data(data: &[u8]) -> Result<(), String> {
    if data.len() > MAX_DATA_BYTES {
        return Err(format!("data of {} bytes; at most {MAX_DATA_BYTES} are allowed", data.len()));
    }
    if data == REVOKED {
        return Err("the data is the mark of a revoked lock; choose another".into());
    }
    Ok(())
}

/// Checks the ends of other nodes' names, before their numbers. `option` names them for the error.
pub(crate) fn check_bases(option: &str, bases: &[String]) -> Result<(), String> {
    match bases.iter().find(|base| base.is_empty() || base.contains('/')) {
        Some(base) => Err(format!(
            "{option}: {base:?} cannot be the end of a node's name before its number; it must be a text without '/'"
        )),
        None => Ok(()),
    }
}

impl fmt::Debug for LockLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLine").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Returns how much of this time is reserved for leaving.
fn to_leave(timeout: Duration) -> Duration {
    let (part, most) = TO_LEAVE;
    (timeout / part).min(most)
}
