//! The claimed items that no caller has taken yet, and the callers that wait for one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::claim::Claim;
use crate::client::lease::Grant;
use crate::client::session::{Condition, Session};
use crate::queue::error::Error;
use crate::util::mutex::{Mutex, MutexGuard};

/// How long an item that was claimed for a dropped call is kept for another call. Then it is returned to the queue.
const LINGER: Duration = Duration::from_secs(1);

/// A claimed item.
#[derive(Debug)]
pub(super) struct Ready<T> {
    pub(super) claim: Arc<Claim>,
    pub(super) items: Vec<T>,
}

/// The buffer that the handles and the task of a consumer share.
#[derive(Debug)]
pub(super) struct Buffer<T> {
    state: Mutex<State<T>>,
    /// How many items are claimed beyond those that callers wait for.
    prefetch: usize,
    /// Wakes the callers that wait.
    news: Notify,
    /// Wakes the task when a caller arrives or leaves.
    demand: Notify,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<Ready<T>>,
    /// The number of callers that wait.
    waiting: usize,
    /// When a caller last stopped waiting; `None` if none has yet.
    last_left: Option<Instant>,
    /// A failure that has not been returned to a caller yet, and when it expires because the operation is retried.
    failure: Option<(Error, Instant)>,
    ended: Option<Error>,
    /// Whether a caller waits although there is an item, because the session that claimed it has no valid lease.
    unproven: bool,
}

impl<T> Buffer<T> {
    pub(super) fn new(prefetch: usize) -> Self {
        let state =
            State { ready: VecDeque::new(), waiting: 0, last_left: None, failure: None, ended: None, unproven: false };
        Buffer { state: Mutex::new(state), prefetch, news: Notify::new(), demand: Notify::new() }
    }

    /// Waits for the next item, and returns it with the grant that its claim relies on.
    pub(super) async fn take(&self) -> Result<(Ready<T>, Grant), Error> {
        let waiting = Waiter::new(self);
        let mut news = std::pin::pin!(self.news.notified());
        loop {
            // Enabled before the check, so that no notification between the two is missed.
            news.as_mut().enable();
            if let Some(next) = self.take_next() {
                std::mem::forget(waiting);
                self.demand.notify_one();
                return next;
            }
            news.as_mut().await;
            news.set(self.news.notified());
        }
    }

    /// Removes the item and its caller in one step. Otherwise the task could claim one more item for that caller.
    fn take_next(&self) -> Option<Result<(Ready<T>, Grant), Error>> {
        let mut state = self.state();
        let next = state.next()?;
        state.leave();
        Some(next)
    }

    /// Returns how many items are to be claimed in all: 0 until the first caller arrives.
    pub(super) fn wanted(&self) -> usize {
        let state = self.state();
        if state.waiting > 0 || state.last_left.is_some() { state.waiting + self.prefetch } else { 0 }
    }

    /// Removes and returns the items that were claimed for calls dropped a while ago. These are the last ones in the
    /// order of the queue.
    pub(super) fn surplus(&self) -> VecDeque<Ready<T>> {
        let mut state = self.state();
        let keep = state.waiting + self.prefetch;
        if state.last_left.is_some_and(|last| last.elapsed() < LINGER) || state.ready.len() <= keep {
            return VecDeque::new();
        }
        state.ready.split_off(keep)
    }

    /// Returns when there will be a surplus.
    pub(super) fn surplus_at(&self) -> Option<Instant> {
        let state = self.state();
        let over = state.ready.len() > state.waiting + self.prefetch;
        state.last_left.filter(|_| over).map(|last| last + LINGER)
    }

    pub(super) fn len(&self) -> usize {
        self.state().ready.len()
    }

    pub(super) fn put(&self, ready: Ready<T>) {
        let mut state = self.state();
        // An earlier failure no longer applies.
        state.failure = None;
        state.ready.push_back(ready);
        drop(state);
        self.news.notify_one();
    }

    /// Removes and returns all items that no caller has taken.
    pub(super) fn clear(&self) -> VecDeque<Ready<T>> {
        std::mem::take(&mut self.state().ready)
    }

    /// Wakes the callers if one of them waits for a valid lease.
    pub(super) fn recheck_leases(&self) {
        if std::mem::take(&mut self.state().unproven) {
            self.news.notify_waiters();
        }
    }

    /// Returns the error to a waiting caller, or to the next one that arrives before `until`.
    pub(super) fn fail(&self, error: Error, until: Instant) {
        self.state().failure = Some((error, until));
        self.news.notify_one();
    }

    /// Ends the buffer: all callers get this error from now on.
    pub(super) fn end(&self, why: Error) {
        self.state().ended.get_or_insert(why);
        self.news.notify_waiters();
    }

    /// Resolves when a caller has arrived or left.
    pub(super) async fn demand_changed(&self) {
        self.demand.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }
}

impl<T> State<T> {
    /// Records that a caller has stopped waiting.
    fn leave(&mut self) {
        self.waiting -= 1;
        self.last_left = Some(Instant::now());
    }

    fn next(&mut self) -> Option<Result<(Ready<T>, Grant), Error>> {
        if let Some(why) = &self.ended {
            return Some(Err(why.clone()));
        }
        if let Some((failure, until)) = self.failure.take()
            && Instant::now() < until
        {
            return Some(Err(failure));
        }
        let grant = valid_grant(&self.ready.front()?.claim.session);
        self.unproven |= grant.is_none();
        let grant = grant?;
        self.ready.pop_front().map(|ready| Ok((ready, grant)))
    }
}

/// Returns the grant of the session if it is connected and its lease is valid. Callers wait until both hold.
fn valid_grant(session: &Session) -> Option<Grant> {
    match session.condition() {
        Condition::Connected(_) => session.grant(),
        Condition::Suspended | Condition::Ended(_) => None,
    }
}

/// A waiting caller.
struct Waiter<'a, T>(&'a Buffer<T>);

impl<'a, T> Waiter<'a, T> {
    fn new(buffer: &'a Buffer<T>) -> Self {
        buffer.state().waiting += 1;
        buffer.demand.notify_one();
        Waiter(buffer)
    }
}

impl<T> Drop for Waiter<'_, T> {
    fn drop(&mut self) {
        self.0.state().leave();
        self.0.demand.notify_one();
    }
}
