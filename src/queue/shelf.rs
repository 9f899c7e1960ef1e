//! What a consumer has claimed and nobody has taken yet; and who waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::claim::Claim;
use super::error::Error;
use crate::client::lease::Grant;
use crate::client::session::{Condition, Session};

/// An item to be handed out.
#[derive(Debug)]
pub(super) struct Ready<T> {
    pub(super) claim: Arc<Claim>,
    pub(super) items: Vec<T>,
}

/// What the handles and the task of a consumer share.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    state: Mutex<State<T>>,
    /// For those who wait.
    news: Notify,
    /// For the task: somebody has come, or has taken something.
    asked: Notify,
}

#[derive(Debug)]
struct State<T> {
    /// Items are handed out once they have left the queue.
    at_most_once: bool,
    /// Claimed.
    ready: VecDeque<Ready<T>>,
    /// Claimed, and gone from the queue: whoever asks next must get them.
    gone: VecDeque<Ready<T>>,
    asking: usize,
    /// When somebody has asked last.
    last_asked: Option<Instant>,
    /// A failure that nobody has been told.
    failure: Option<Error>,
    ended: Option<Error>,
}

impl<T> Shelf<T> {
    pub(super) fn new(at_most_once: bool) -> Self {
        let state = State {
            at_most_once,
            ready: VecDeque::new(),
            gone: VecDeque::new(),
            asking: 0,
            last_asked: None,
            failure: None,
            ended: None,
        };
        Shelf { state: Mutex::new(state), news: Notify::new(), asked: Notify::new() }
    }

    /// The next item, with the right to believe in its claim.
    pub(super) async fn take(&self) -> Result<(Ready<T>, Option<Grant>), Error> {
        let _asking = Asking::new(self);
        let mut news = std::pin::pin!(self.news.notified());
        loop {
            // Before the look, so that nothing falls between the two.
            news.as_mut().enable();
            if let Some(next) = self.state().next() {
                self.asked.notify_one();
                return next;
            }
            news.as_mut().await;
            news.set(self.news.notified());
        }
    }

    /// What is to be claimed in all: for those who wait, and ahead. `None` if nobody has asked for longer than that.
    pub(super) fn wanted(&self, ahead: usize, linger: Duration) -> Option<usize> {
        let state = self.state();
        let active = state.asking > 0 || state.last_asked.is_some_and(|last| last.elapsed() < linger);
        active.then_some(state.asking + ahead)
    }

    /// When it will be so long since somebody has asked; `None` if somebody waits, or nobody ever came.
    pub(super) fn idle_at(&self, linger: Duration) -> Option<Instant> {
        let state = self.state();
        if state.asking > 0 { None } else { state.last_asked.map(|last| last + linger) }
    }

    pub(super) fn ready(&self) -> usize {
        self.state().ready.len()
    }

    pub(super) fn put(&self, ready: Ready<T>) {
        self.state().ready.push_back(ready);
        self.news.notify_one();
    }

    /// Takes everything back that nobody has taken, and that has not left the queue.
    pub(super) fn clear(&self) -> VecDeque<Ready<T>> {
        std::mem::take(&mut self.state().ready)
    }

    /// At most once: the next that is to leave the queue, as somebody waits for it. So many are about to.
    pub(super) fn next_to_go(&self, leaving: usize) -> Option<Ready<T>> {
        let mut state = self.state();
        let wanted = state.at_most_once && state.asking > leaving + state.gone.len();
        if wanted { state.ready.pop_front() } else { None }
    }

    /// It has left the queue.
    pub(super) fn put_gone(&self, ready: Ready<T>) {
        self.state().gone.push_back(ready);
        self.news.notify_one();
    }

    /// Something may be had that could not be had before.
    pub(super) fn look_again(&self) {
        self.news.notify_waiters();
    }

    /// Tells one of those who wait, or who come next.
    pub(super) fn fail(&self, error: Error) {
        self.state().failure = Some(error);
        self.news.notify_one();
    }

    /// There will be nothing more.
    pub(super) fn end(&self, why: Error) {
        self.state().ended.get_or_insert(why);
        self.news.notify_waiters();
    }

    /// Resolves when somebody has come, or has taken something.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What somebody gets, and the lease under which it was claimed, if it was.
type Taken<T> = (Ready<T>, Option<Grant>);

impl<T> State<T> {
    fn next(&mut self) -> Option<Result<Taken<T>, Error>> {
        // It would be lost if nobody took it, whatever has happened since.
        if let Some(ready) = self.gone.pop_front() {
            return Some(Ok((ready, None)));
        }
        if let Some(why) = &self.ended {
            return Some(Err(why.clone()));
        }
        if let Some(failure) = self.failure.take() {
            return Some(Err(failure));
        }
        if self.at_most_once {
            return None;
        }
        let grant = self.ready.front().and_then(|ready| believable(&ready.claim.session))?;
        self.ready.pop_front().map(|ready| Ok((ready, Some(grant))))
    }
}

/// A claim counts while its session is connected and its lease runs. Until both are certain, whoever asks waits.
fn believable(session: &Session) -> Option<Grant> {
    match session.condition() {
        Condition::Connected(_) => session.grant(),
        Condition::Suspended | Condition::Ended(_) => None,
    }
}

/// Somebody who waits.
struct Asking<'a, T>(&'a Shelf<T>);

impl<'a, T> Asking<'a, T> {
    fn new(shelf: &'a Shelf<T>) -> Self {
        let mut state = shelf.state();
        state.asking += 1;
        drop(state);
        shelf.asked.notify_one();
        Asking(shelf)
    }
}

impl<T> Drop for Asking<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.asking -= 1;
        state.last_asked = Some(Instant::now());
        drop(state);
        self.0.asked.notify_one();
    }
}
