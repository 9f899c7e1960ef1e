//! The requests of a cache that are under way on one connection, in the order in which they were handed over.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, FuturesOrdered, StreamExt};

use super::chroot;
use super::tracker::{Job, Watching};
use crate::backend::{Error, Watch};
use crate::client::session::Session;
use crate::znode::Stat;

/// How many requests may be under way. More would not be faster, and other users of the connection wait behind them.
const UNDER_WAY: usize = 512;

/// An answer.
pub(super) enum Answer {
    Looked(Arc<str>, Result<Option<Stat>, Error>),
    Read(Arc<str>, Result<(Vec<u8>, Stat), Error>),
    Listed(Arc<str>, Result<(Vec<String>, Stat), Error>),
    /// Everything that was committed before the sync was handed over has been reported.
    Synced(Result<(), Error>),
    /// Whether the root that the connect string names exists.
    Chroot(Result<bool, Error>),
}

/// An answer, and the watch that the request armed.
pub(super) struct Answered {
    pub(super) answer: Answer,
    pub(super) watch: Option<(Arc<str>, Watch)>,
}

impl Answered {
    fn bare(answer: Answer) -> Self {
        Answered { answer, watch: None }
    }
}

/// See the module.
pub(super) struct Reads {
    session: Arc<Session>,
    watching: Watching,
    root: Arc<str>,
    under_way: FuturesOrdered<BoxFuture<'static, Answered>>,
    /// Whether the root that the connect string names exists: now, and after each event of it.
    chroot: Option<BoxStream<'static, Result<bool, Error>>>,
}

impl Reads {
    pub(super) fn new(session: &Arc<Session>, watching: Watching, root: &Arc<str>) -> Self {
        let (session, root) = (Arc::clone(session), Arc::clone(root));
        Reads { session, watching, root, under_way: FuturesOrdered::new(), chroot: None }
    }

    /// Hands over requests, as many as may be under way, in one write; not before half of those are answered, as many
    /// small writes cost both sides more.
    pub(super) fn fill(&mut self, mut next: impl FnMut() -> Option<(Job, String)>) {
        if self.under_way.len() > UNDER_WAY / 2 {
            return;
        }
        let session = Arc::clone(&self.session);
        session.together(|| {
            while self.under_way.len() < UNDER_WAY
                && let Some((job, full)) = next()
            {
                let answered = self.hand_over(job, &full);
                self.under_way.push_back(answered);
            }
        });
    }

    /// Hands over a sync.
    pub(super) fn sync(&mut self, full: &str) {
        let synced = self.session.sync(full);
        self.under_way.push_back(synced.map(|synced| Answered::bare(Answer::Synced(synced))).boxed());
    }

    /// Follows whether the root that the connect string names exists, or no longer does so.
    pub(super) fn follow_chroot(&mut self, is_needed: bool) {
        if is_needed != self.chroot.is_some() {
            self.chroot = is_needed.then(|| chroot::follow(&self.session));
        }
    }

    /// Returns all answers that are here.
    pub(super) fn answers(&mut self, cx: &mut Context<'_>) -> Vec<Answered> {
        let mut answers = Vec::new();
        while let Poll::Ready(Some(answered)) = self.under_way.poll_next_unpin(cx) {
            answers.push(answered);
        }
        if let Some(Poll::Ready(Some(found))) = self.chroot.as_mut().map(|chroot| chroot.poll_next_unpin(cx)) {
            answers.push(Answered::bare(Answer::Chroot(found)));
        }
        answers
    }

    fn hand_over(&self, job: Job, full: &str) -> BoxFuture<'static, Answered> {
        let session = &self.session;
        match (job, self.watching) {
            (Job::Look(path), Watching::Persistent) => {
                session.exists(full).map(|found| Answered::bare(Answer::Looked(path, found))).boxed()
            }
            (Job::Read(path), Watching::Persistent) => {
                session.get_data(full).map(|read| Answered::bare(Answer::Read(path, read))).boxed()
            }
            (Job::List(path), Watching::Persistent) => {
                session.list_children(full).map(|listed| Answered::bare(Answer::Listed(path, listed))).boxed()
            }
            (Job::Look(path), Watching::OneShot) => {
                let is_root = path == self.root;
                let found = session.watch_exists(full);
                async move {
                    let answered = with_watch(path, found.await, |found| found, Answer::Looked);
                    // A watch on a missing node is of use only for the root: of others their directory tells.
                    let is_missing = matches!(answered.answer, Answer::Looked(_, Ok(None)));
                    Answered { watch: answered.watch.filter(|_| is_root || !is_missing), ..answered }
                }
                .boxed()
            }
            (Job::Read(path), Watching::OneShot) => session
                .watch_data(full)
                .map(|read| with_watch(path, read, |(data, stat, watch)| ((data, stat), watch), Answer::Read))
                .boxed(),
            (Job::List(path), Watching::OneShot) => session
                .watch_children(full)
                .map(|listed| with_watch(path, listed, |(names, stat, watch)| ((names, stat), watch), Answer::Listed))
                .boxed(),
        }
    }
}

/// Separates what was read from the watch that was armed.
fn with_watch<R, T>(
    path: Arc<str>,
    result: Result<R, Error>,
    split: fn(R) -> (T, Watch),
    answer: fn(Arc<str>, Result<T, Error>) -> Answer,
) -> Answered {
    match result.map(split) {
        Ok((read, watch)) => Answered { watch: Some((Arc::clone(&path), watch)), answer: answer(path, Ok(read)) },
        Err(error) => Answered::bare(answer(path, Err(error))),
    }
}
