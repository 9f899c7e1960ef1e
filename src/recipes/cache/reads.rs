//! The requests of a cache that are under way on one connection, in the order in which they were handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt, join_all};
use futures::stream::{BoxStream, FuturesOrdered, StreamExt};

use super::chroot;
use super::tracker::{Job, Watching};
use crate::client::read_together::Group;
use crate::client::session::Session;
use crate::engine::{Error, Reply, Watch};
use crate::util::znode::Stat;

/// The most answers that may be outstanding. More would not be faster, and other users of the connection wait behind
/// them.
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

/// The answers to one request.
type Answers = BoxFuture<'static, Vec<Answered>>;

/// See the module.
pub(super) struct Reads {
    session: Arc<Session>,
    watching: Watching,
    root: Arc<str>,
    under_way: FuturesOrdered<Answers>,
    /// How many answers are outstanding.
    open: usize,
    /// Whether one request may read many nodes: until such a request was refused as a whole.
    reads_together: Arc<AtomicBool>,
    /// Whether the root that the connect string names exists: now, and after each event of it.
    chroot: Option<BoxStream<'static, Result<bool, Error>>>,
}

impl Reads {
    pub(super) fn new(session: &Arc<Session>, watching: Watching, root: &Arc<str>) -> Self {
        let (session, root) = (Arc::clone(session), Arc::clone(root));
        // Persistent watches and reads of many nodes both exist since 3.6.
        let reads_together = Arc::new(AtomicBool::new(watching == Watching::Persistent));
        Reads { session, watching, root, under_way: FuturesOrdered::new(), open: 0, reads_together, chroot: None }
    }

    /// Hands over requests in one write, up to the limit of outstanding answers, but only once at most half as many are
    /// outstanding: many small writes cost both sides more. Nodes that `next` says are small are read together.
    pub(super) fn fill(&mut self, mut next: impl FnMut() -> Option<(Job, String, bool)>) {
        if self.open > UNDER_WAY / 2 {
            return;
        }
        let session = Arc::clone(&self.session);
        let root = session.root_len();
        session.together(|| {
            let mut group = Group::default();
            while self.open < UNDER_WAY
                && let Some((job, full, is_small)) = next()
            {
                self.open += 1;
                match job {
                    Job::Read(path) if is_small && self.reads_together.load(Ordering::Relaxed) => {
                        if !group.has_room(&full, root) {
                            self.read(std::mem::take(&mut group));
                        }
                        group.push(path, full, root);
                    }
                    job => {
                        self.read(std::mem::take(&mut group));
                        self.under_way.push_back(self.hand_over(job, &full));
                    }
                }
            }
            self.read(group);
        });
    }

    /// Hands over a sync.
    pub(super) fn sync(&mut self, full: &str) {
        self.open += 1;
        self.under_way.push_back(only(self.session.sync(full), Answer::Synced));
    }

    /// Starts or stops following whether the root that the connect string names exists.
    pub(super) fn follow_chroot(&mut self, is_needed: bool) {
        if is_needed != self.chroot.is_some() {
            self.chroot = is_needed.then(|| chroot::follow(&self.session));
        }
    }

    /// Returns all answers that have arrived.
    pub(super) fn answers(&mut self, cx: &mut Context<'_>) -> Vec<Answered> {
        let mut answers = Vec::new();
        while let Poll::Ready(Some(answered)) = self.under_way.poll_next_unpin(cx) {
            answers.extend(answered);
        }
        self.open -= answers.len();
        if let Some(Poll::Ready(Some(found))) = self.chroot.as_mut().map(|chroot| chroot.poll_next_unpin(cx)) {
            answers.push(Answered::bare(Answer::Chroot(found)));
        }
        answers
    }

    /// Hands over the reads of a group in one request. If the server does not support that, or the answer is too long,
    /// each node is then read by its own request.
    fn read(&mut self, Group { nodes: mut paths, full, .. }: Group<Arc<str>>) {
        if full.len() < 2 {
            let jobs = paths.pop().map(Job::Read).zip(full.first());
            self.under_way.extend(jobs.map(|(job, full)| self.hand_over(job, full)));
            return;
        }
        let (session, reads_together) = (Arc::clone(&self.session), Arc::clone(&self.reads_together));
        let read = session.get_many(&full);
        let answered = async move {
            let read = match read.await {
                Ok(read) => read,
                Err(error) if error.is_transient() => vec![Err(error); paths.len()],
                Err(_) => {
                    reads_together.store(false, Ordering::Relaxed);
                    let reads = || join_all(full.iter().map(|full| session.get_data(full)));
                    session.together(reads).await
                }
            };
            paths.into_iter().zip(read).map(|(path, read)| Answered::bare(Answer::Read(path, read))).collect()
        };
        self.under_way.push_back(answered.boxed());
    }

    fn hand_over(&self, job: Job, full: &str) -> Answers {
        let session = &self.session;
        match (job, self.watching) {
            (Job::Look(path), Watching::Persistent) => only(session.exists(full), |found| Answer::Looked(path, found)),
            (Job::Read(path), Watching::Persistent) => only(session.get_data(full), |read| Answer::Read(path, read)),
            (Job::List(path), Watching::Persistent) => {
                only(session.list_children(full), |listed| Answer::Listed(path, listed))
            }
            (Job::Look(path), Watching::OneShot) => {
                let is_root = path == self.root;
                let found = session.watch_exists(full);
                async move {
                    let answered = with_watch(path, found.await, |found| found, Answer::Looked);
                    // A watch on a missing node is needed only for the root: a directory reports the others.
                    let is_missing = matches!(answered.answer, Answer::Looked(_, Ok(None)));
                    vec![Answered { watch: answered.watch.filter(|_| is_root || !is_missing), ..answered }]
                }
                .boxed()
            }
            (Job::Read(path), Watching::OneShot) => session
                .watch_data(full)
                .map(|read| vec![with_watch(path, read, |(data, stat, watch)| ((data, stat), watch), Answer::Read)])
                .boxed(),
            (Job::List(path), Watching::OneShot) => session
                .watch_children(full)
                .map(|listed| {
                    vec![with_watch(path, listed, |(names, stat, watch)| ((names, stat), watch), Answer::Listed)]
                })
                .boxed(),
        }
    }
}

/// The only answer to a request that arms no watch.
fn only<T: 'static>(reply: Reply<T>, answer: impl FnOnce(Result<T, Error>) -> Answer + Send + 'static) -> Answers {
    reply.map(|outcome| vec![Answered::bare(answer(outcome))]).boxed()
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
