//! The claimed items that no caller has taken yet, and the callers that wait for items.

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

/// An item that was claimed for a dropped call is returned after this time, unless another call takes it.
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
    /// Wakes the task when a caller has arrived, or has taken something.
    asked: Notify,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<Ready<T>>,
    /// How many callers wait.
    asking: usize,
    /// When the last caller stopped waiting; `None` if there was none yet.
    last_asked: Option<Instant>,
    /// A failure that was not returned to a caller yet, and when it is outdated: then the operation is due again.
    failure: Option<(Error, Instant)>,
    ended: Option<Error>,
    /// A caller has found an item whose claim was not reliable, and waits.
    unproven: bool,
}

impl<T> Buffer<T> {
    pub(super) fn new(prefetch: usize) -> Self {
        let state =
            State { ready: VecDeque::new(), asking: 0, last_asked: None, failure: None, ended: None, unproven: false };
        Buffer { state: Mutex::new(state), prefetch, news: Notify::new(), asked: Notify::new() }
    }

    /// Waits for the next item, and returns it with the grant on which its claim relies.
    pub(super) async fn take(&self) -> Result<(Ready<T>, Grant), Error> {
        let asking = Asking::new(self);
        let mut news = std::pin::pin!(self.news.notified());
        loop {
            // Enabled before the check, so that no notification between the two is missed.
            news.as_mut().enable();
            if let Some(next) = self.take_next() {
                std::mem::forget(asking);
                self.asked.notify_one();
                return next;
            }
            news.as_mut().await;
            news.set(self.news.notified());
        }
    }

    /// Removes the item and its caller in one step: in between, the task would claim one more item for that caller.
    fn take_next(&self) -> Option<Result<(Ready<T>, Grant), Error>> {
        let mut state = self.state();
        let next = state.next()?;
        state.leave();
        Some(next)
    }

    /// Returns how many items have to be claimed in all; 0 before the first caller has arrived.
    pub(super) fn wanted(&self) -> usize {
        let state = self.state();
        if state.asking > 0 || state.last_asked.is_some() { state.asking + self.prefetch } else { 0 }
    }

    /// Removes and returns the items that were claimed for calls dropped a while ago: the last ones in queue order.
    pub(super) fn surplus(&self) -> VecDeque<Ready<T>> {
        let mut state = self.state();
        let keep = state.asking + self.prefetch;
        if state.last_asked.is_some_and(|last| last.elapsed() < LINGER) || state.ready.len() <= keep {
            return VecDeque::new();
        }
        state.ready.split_off(keep)
    }

    /// Returns when there will be a surplus.
    pub(super) fn surplus_at(&self) -> Option<Instant> {
        let state = self.state();
        let over = state.ready.len() > state.asking + self.prefetch;
        state.last_asked.filter(|_| over).map(|last| last + LINGER)
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

    /// Wakes the callers if a claim that was not reliable may have become reliable.
    pub(super) fn look_again(&self) {
        if std::mem::take(&mut self.state().unproven) {
            self.news.notify_waiters();
        }
    }

    /// Returns the error to a waiting caller, or to the next one before this time.
    pub(super) fn fail(&self, error: Error, until: Instant) {
        self.state().failure = Some((error, until));
        self.news.notify_one();
    }

    /// Ends the buffer: all callers get this error.
    pub(super) fn end(&self, why: Error) {
        self.state().ended.get_or_insert(why);
        self.news.notify_waiters();
    }

    /// Resolves when a caller has arrived, or has taken something.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }
}

impl<T> State<T> {
    /// Records that a caller has stopped waiting.
    fn leave(&mut self) {
        self.asking -= 1;
        self.last_asked = Some(Instant::now());
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
        let grant = reliable(&self.ready.front()?.claim.session);
        self.unproven |= grant.is_none();
        let grant = grant?;
        self.ready.pop_front().map(|ready| Ok((ready, grant)))
    }
}

/// Returns the grant of a session that is connected and whose lease is valid. Callers wait until both are certain.
fn reliable(session: &Session) -> Option<Grant> {
    match session.condition() {
        Condition::Connected(_) => session.grant(),
        Condition::Suspended | Condition::Ended(_) => None,
    }
}

/// A waiting caller.
struct Asking<'a, T>(&'a Buffer<T>);

impl<'a, T> Asking<'a, T> {
    fn new(buffer: &'a Buffer<T>) -> Self {
        buffer.state().asking += 1;
        buffer.asked.notify_one();
        Asking(buffer)
    }
}

impl<T> Drop for Asking<'_, T> {
    fn drop(&mut self) {
        self.0.state().leave();
        self.0.asked.notify_one();
    }
}
