//! A line whose contenders acquire a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use super::acquire::{Acquire, Attempt, CallTime, Seen};
use super::held::Held;
use super::measure::announce;
use super::{Contender, Hold, Spec, State};
use crate::client::{Client, Error};
use crate::engine;
use crate::layout::line::REVOKED;
use crate::util::path::join;

/// The largest data of a node. Every reader of the node receives it; this is plenty, and far below a node's limit of a
/// megabyte.
const MAX_DATA_BYTES: usize = 64 * 1024;

/// The error of work that was to run while a lock is held: the lock was lost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lock was lost")]
pub struct LockLost;

/// The line of a lock, and how its contenders enter it.
#[derive(Clone)]
pub(crate) struct LockLine {
    acquire: Acquire,
    spec: Arc<Spec>,
}

/// A contender of the line that acquires the lock.
struct Waiter<'a> {
    line: &'a LockLine,
    contender: Contender,
    span: Span,
}

impl Attempt for Waiter<'_> {
    type Hold = Hold;

    fn follow(&mut self, span: Span) {
        self.contender.follow(span.clone());
        self.span = span;
    }

    async fn first(&mut self, seen: &mut Seen) -> Result<Option<Hold>, Error> {
        loop {
            match self.contender.next().await {
                State::Held(hold) => {
                    std::mem::replace(&mut self.span, Span::none()).record("token", hold.token());
                    return Ok(Some(hold));
                }
                State::Behind => {
                    *seen = Seen::Another;
                    return Ok(None);
                }
                state => self.line.acquire.pass(state, seen)?,
            }
        }
    }

    async fn leave(mut self) -> Result<(), engine::Error> {
        self.contender.leave().await
    }
}

impl LockLine {
    /// `recipe` names the lock, for spans and metrics. `advice` is what a caller should do instead that waits for its
    /// own lock; for the log.
    pub(crate) fn new(client: Client, recipe: &'static str, path: Arc<str>, spec: Spec, advice: &'static str) -> Self {
        announce(client.core(), recipe, &path);
        LockLine { acquire: Acquire { client, recipe, path, advice: Some(advice) }, spec: Arc::new(spec) }
    }

    pub(crate) fn path(&self) -> &Arc<str> {
        &self.acquire.path
    }

    /// Exchanges what is held for a hold in this line, at the same place. `None` if it was lost.
    #[cfg(feature = "read-write-lock")]
    pub(crate) async fn downgrade(&self, held: Held) -> Result<Option<Held>, Error> {
        let Some(mut contender) = held.into_contender().await else { return Ok(None) };
        let hold = contender.downgrade(&self.spec).await?;
        Ok(hold.map(|hold| self.take(*contender, hold)))
    }

    /// Returns the line with another advice.
    #[cfg(feature = "multi-lock")]
    pub(crate) fn with_advice(self, advice: &'static str) -> Self {
        LockLine { acquire: Acquire { advice: Some(advice), ..self.acquire }, ..self }
    }

    /// Returns the directory on the server.
    #[cfg(feature = "multi-lock")]
    pub(crate) fn dir(&self) -> &str {
        &self.spec.dir
    }

    #[cfg(feature = "multi-lock")]
    pub(crate) fn is_of_the_client_of(&self, other: &LockLine) -> bool {
        Arc::ptr_eq(self.acquire.client.core(), other.acquire.client.core())
    }

    pub(crate) fn connection_timeout(&self) -> Duration {
        self.acquire.connection_timeout()
    }

    /// Waits for the lock without a limit.
    pub(crate) async fn acquire(&self) -> Result<Held, Error> {
        self.acquire.without_limit(self.waiter()).await.map(|had| self.had(had))
    }

    /// Waits for the lock for at most `timeout`, leaving included. `None` if another contender was ahead.
    pub(crate) async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Held>, Error> {
        let had = self.acquire.for_at_most(self.waiter(), timeout).await?;
        Ok(had.map(|had| self.had(had)))
    }

    /// As `acquire_timeout`, with this time. When `stop` resolves first, it leaves the line, and returns `None`.
    pub(crate) async fn acquire_in(
        &self,
        time: CallTime,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Held>, Error> {
        let had = self.acquire.in_time(self.waiter(), time, stop).await?;
        Ok(had.map(|had| self.had(had)))
    }

    /// Takes the lock if it is free; `None` if another contender is ahead. Waits for the servers only.
    pub(crate) async fn try_acquire(&self) -> Result<Option<Held>, Error> {
        let had = self.acquire.if_free(self.waiter()).await?;
        Ok(had.map(|had| self.had(had)))
    }

    /// As `try_acquire`, with this time.
    pub(crate) async fn try_in(&self, time: CallTime) -> Result<Option<Held>, Error> {
        let had = self.acquire.if_free_in(self.waiter(), time).await?;
        Ok(had.map(|had| self.had(had)))
    }

    /// Returns the paths of the participants' nodes in order.
    pub(crate) async fn participants(&self) -> Result<Vec<String>, Error> {
        let names = super::names(&self.acquire.client, self.path(), &self.spec.bases()).await?;
        Ok(names.iter().map(|name| join(self.path(), name)).collect())
    }

    fn waiter(&self) -> Waiter<'_> {
        Waiter { line: self, contender: Contender::new(self.acquire.client.core(), &self.spec), span: Span::none() }
    }

    fn had(&self, (waiter, hold): (Waiter<'_>, Hold)) -> Held {
        self.take(waiter.contender, hold)
    }

    /// Makes a hold of a contender into what a guard stands on.
    fn take(&self, contender: Contender, hold: Hold) -> Held {
        tracing::debug!(event = "lock_acquired", path = &**self.path(), token = hold.token(), "lock held");
        Held::new(&self.acquire, contender, hold)
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
        f.debug_struct("LockLine").field("path", self.path()).finish_non_exhaustive()
    }
}
