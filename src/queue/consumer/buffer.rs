//! What a consumer has claimed and no caller has taken yet, and who waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::claim::Claim;
use crate::client::lease::Grant;
use crate::client::session::{Condition, Session};
use crate::queue::error::Error;

/// What was claimed for a call that was dropped is returned after this, unless another call takes it.
const LINGER: Duration = Duration::from_secs(1);

/// A claimed item.
#[derive(Debug)]
pub(super) struct Ready<T> {
    pub(super) claim: Arc<Claim>,
    pub(super) items: Vec<T>,
}

/// What the handles and the task of a consumer share.
#[derive(Debug)]
pub(super) struct Buffer<T> {
    state: Mutex<State<T>>,
    /// So many are claimed beyond those that are asked for.
    prefetch: usize,
    /// For the callers that wait.
    news: Notify,
    /// For the task: a caller has come, or has taken something.
    asked: Notify,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<Ready<T>>,
    /// How many callers wait.
    asking: usize,
    /// When a caller was here last; none if none ever was.
    last_asked: Option<Instant>,
    /// A failure that no caller was told of.
    failure: Option<Error>,
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

    /// The next item, with the right to rely on its claim.
    pub(super) async fn take(&self) -> Result<(Ready<T>, Grant), Error> {
        let asking = Asking::new(self);
        let mut news = std::pin::pin!(self.news.notified());
        loop {
            // Before the look, so that nothing falls between the two.
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

    /// In one step the item and its caller go: in between the task would claim one more for that caller.
    fn take_next(&self) -> Option<Result<(Ready<T>, Grant), Error>> {
        let mut state = self.state();
        let next = state.next()?;
        state.leave();
        Some(next)
    }

    /// How many items are to be claimed in all. None before the first caller has come.
    pub(super) fn wanted(&self) -> usize {
        let state = self.state();
        if state.asking > 0 || state.last_asked.is_some() { state.asking + self.prefetch } else { 0 }
    }

    /// What was claimed for calls that were dropped a while ago; the items that are the last in the queue.
    pub(super) fn surplus(&self) -> VecDeque<Ready<T>> {
        let mut state = self.state();
        let keep = state.asking + self.prefetch;
        if state.last_asked.is_some_and(|last| last.elapsed() < LINGER) || state.ready.len() <= keep {
            return VecDeque::new();
        }
        state.ready.split_off(keep)
    }

    /// When there will be a surplus.
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
        // What failed before is over.
        state.failure = None;
        state.ready.push_back(ready);
        drop(state);
        self.news.notify_one();
    }

    /// Takes everything back that no caller has taken.
    pub(super) fn clear(&self) -> VecDeque<Ready<T>> {
        std::mem::take(&mut self.state().ready)
    }

    /// A claim that was not reliable may be so now.
    pub(super) fn look_again(&self) {
        if std::mem::take(&mut self.state().unproven) {
            self.news.notify_waiters();
        }
    }

    /// Tells a caller that waits, or the next one.
    pub(super) fn fail(&self, error: Error) {
        self.state().failure = Some(error);
        self.news.notify_one();
    }

    /// There will be nothing more.
    pub(super) fn end(&self, why: Error) {
        self.state().ended.get_or_insert(why);
        self.news.notify_waiters();
    }

    /// Resolves when a caller has come, or has taken something.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// A caller waits no more.
    fn leave(&mut self) {
        self.asking -= 1;
        self.last_asked = Some(Instant::now());
    }

    fn next(&mut self) -> Option<Result<(Ready<T>, Grant), Error>> {
        if let Some(why) = &self.ended {
            return Some(Err(why.clone()));
        }
        if let Some(failure) = self.failure.take() {
            return Some(Err(failure));
        }
        let grant = reliable(&self.ready.front()?.claim.session);
        self.unproven |= grant.is_none();
        let grant = grant?;
        self.ready.pop_front().map(|ready| Ok((ready, grant)))
    }
}

/// A claim is handed out while its session is connected and its lease runs. Until both are certain, callers wait.
fn reliable(session: &Session) -> Option<Grant> {
    match session.condition() {
        Condition::Connected(_) => session.grant(),
        Condition::Suspended | Condition::Ended(_) => None,
    }
}

/// A caller that waits.
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
