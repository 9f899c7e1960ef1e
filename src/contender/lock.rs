//! A line whose contenders acquire a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use super::acquire::{Acquire, Attempt, CallTime, Competition};
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

    fn record_in(&mut self, span: Span) {
        self.contender.record_in(span.clone());
        self.span = span;
    }

    async fn acquire_step(&mut self, competition: &mut Competition) -> Result<Option<Hold>, Error> {
        loop {
            match self.contender.next().await {
                State::Held(hold) => {
                    std::mem::replace(&mut self.span, Span::none()).record("token", hold.token());
                    return Ok(Some(hold));
                }
                State::Behind => {
                    *competition = Competition::Another;
                    return Ok(None);
                }
                state => self.line.acquire.handle_state(state, competition)?,
            }
        }
    }

    async fn leave(mut self) -> Result<(), engine::Error> {
        self.contender.leave().await
    }
}

impl LockLine {
    /// `recipe` names the lock, for spans and metrics.
    pub(crate) fn new(client: Client, recipe: &'static str, path: Arc<str>, spec: Spec) -> Self {
        announce(client.core(), recipe, &path);
        LockLine { acquire: Acquire { client, recipe, path }, spec: Arc::new(spec) }
    }

    pub(crate) fn path(&self) -> &Arc<str> {
        &self.acquire.path
    }

    /// Exchanges a hold for one in this line at the same place. Returns `None` if it was lost.
    pub(crate) async fn downgrade(&self, held: Held) -> Result<Option<Held>, Error> {
        let Some(mut contender) = held.into_contender().await else { return Ok(None) };
        let hold = contender.downgrade(&self.spec).await?;
        Ok(hold.map(|hold| self.held(*contender, hold)))
    }

    /// Returns the directory on the server.
    pub(crate) fn dir(&self) -> &str {
        &self.spec.dir
    }

    pub(crate) fn is_of_the_client_of(&self, other: &LockLine) -> bool {
        Arc::ptr_eq(self.acquire.client.core(), other.acquire.client.core())
    }

    pub(crate) fn connection_timeout(&self) -> Duration {
        self.acquire.connection_timeout()
    }

    /// Waits for the lock without a limit.
    pub(crate) async fn acquire(&self) -> Result<Held, Error> {
        self.acquire.without_limit(self.waiter()).await.map(|acquired| self.acquired(acquired))
    }

    /// Waits for the lock for at most `timeout`, which includes leaving. Returns `None` if another contender was ahead.
    pub(crate) async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Held>, Error> {
        let acquired = self.acquire.for_at_most(self.waiter(), timeout).await?;
        Ok(acquired.map(|acquired| self.acquired(acquired)))
    }

    /// Like `acquire_timeout`, with this time. If `stop` resolves first, it leaves the line and returns `None`.
    pub(crate) async fn acquire_in(
        &self,
        time: CallTime,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Held>, Error> {
        let acquired = self.acquire.in_time(self.waiter(), time, stop).await?;
        Ok(acquired.map(|acquired| self.acquired(acquired)))
    }

    /// Acquires the lock if no other contender is ahead. Otherwise returns `None`. It waits only for the servers.
    pub(crate) async fn try_acquire(&self) -> Result<Option<Held>, Error> {
        let acquired = self.acquire.if_free(self.waiter()).await?;
        Ok(acquired.map(|acquired| self.acquired(acquired)))
    }

    /// Like `try_acquire`, with this time.
    pub(crate) async fn try_in(&self, time: CallTime) -> Result<Option<Held>, Error> {
        let acquired = self.acquire.if_free_in(self.waiter(), time).await?;
        Ok(acquired.map(|acquired| self.acquired(acquired)))
    }

    /// Returns the paths of the participants' nodes in order.
    pub(crate) async fn participants(&self) -> Result<Vec<String>, Error> {
        let names = super::names(&self.acquire.client, self.path(), &self.spec.bases()).await?;
        Ok(names.iter().map(|name| join(self.path(), name)).collect())
    }

    fn waiter(&self) -> Waiter<'_> {
        Waiter { line: self, contender: Contender::new(self.acquire.client.core(), &self.spec), span: Span::none() }
    }

    fn acquired(&self, (waiter, hold): (Waiter<'_>, Hold)) -> Held {
        self.held(waiter.contender, hold)
    }

    /// Makes the hold of a contender one that guards can share.
    fn held(&self, contender: Contender, hold: Hold) -> Held {
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
