//! The task that keeps a cache: it arms the watch, reads, and publishes.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::change::Change;
use super::chroot::Chroot;
use super::error::Error;
use super::measure::Measured;
use super::node::{Content, Undecodable};
use super::reads::{Answer, Answered, Reads};
use super::scope::Scope;
use super::shared::Shared;
use super::snapshot::{Snapshot, SnapshotMeta};
use super::source::{Notice, Source};
use super::tracker::{Job, Tracker, Watching};
use super::waiters::{Waiter, Waiters};
use crate::client;
use crate::client::core::Core;
use crate::client::session::{Condition, Contending, Session};
use crate::engine::{self, WatchMode};
use crate::util::backoff::Backoff;
use crate::util::clock::Instant;
use crate::util::panic::caught;
use crate::util::serializer::BoxError;
use crate::util::wait::known;

/// Delays after a failure that is not transient: the first and the longest.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Decodes the data of a node.
pub(super) type Decode<T> = Arc<dyn Fn(&[u8]) -> Result<T, BoxError> + Send + Sync>;

/// What a cache is made of.
pub(super) struct Plan<T> {
    pub(super) scope: Arc<Scope>,
    pub(super) with_data: bool,
    pub(super) decode: Decode<T>,
}

/// Why following a connection ended.
enum End {
    /// Events may be missing: compare everything, once there is a connection.
    Gap,
    /// A server is overloaded.
    Throttled,
    /// A request failed for another reason than the connection.
    Failed(client::Error),
}

/// What the task waits for.
enum Step {
    Received(Vec<Notice>, Vec<Answer>),
    Condition,
    Asked,
    /// The ensemble has answered a request that was sent at this time, and all events before that have arrived.
    Proven(Instant),
    /// The ensemble has confirmed the session.
    Extended,
    /// A request that was refused is due for a retry.
    RetryDue,
}

/// See the module.
pub(super) struct Keeper<T> {
    core: Arc<Core>,
    plan: Plan<T>,
    shared: Arc<Shared<T>>,
    tracker: Tracker<T>,
    waiters: Waiters<T>,
    /// The session and its watches, kept over a loss of the connection.
    armed: Option<(Arc<Session>, Source)>,
    /// One-shot watches from before a gap. They are removed once others have replaced them.
    replaced: Option<Source>,
    /// Counts this cache among those that compare after a reconnect of the session.
    contending: Option<Contending>,
    /// Times as of which the ensemble has confirmed everything, once these rounds are over.
    proofs: Vec<(Instant, u64)>,
    confirmed: Option<Instant>,
    /// The latest confirmation of the session that was processed.
    proven: Option<Instant>,
    /// The server only answers reads, and confirms nothing.
    read_only: bool,
    chroot: Chroot,
    backoff: Backoff,
    measured: Measured,
}

impl<T: Send + Sync + 'static> Keeper<T> {
    pub(super) fn new(
        core: &Arc<Core>,
        plan: Plan<T>,
        shared: &Arc<Shared<T>>,
        asked: mpsc::UnboundedReceiver<Waiter<T>>,
    ) -> Self {
        let tracker = Tracker::new(Scope::clone(&plan.scope), plan.with_data, core.random.clone());
        let measured = Measured::new(core, &plan.scope.root);
        Keeper {
            core: Arc::clone(core),
            plan,
            shared: Arc::clone(shared),
            tracker,
            waiters: Waiters::new(asked),
            armed: None,
            replaced: None,
            contending: None,
            proofs: Vec::new(),
            confirmed: None,
            proven: None,
            read_only: false,
            chroot: Chroot::Unknown,
            backoff: Backoff::new(RETRY_DELAYS),
            measured,
        }
    }

    /// Keeps the cache until the client is closed, or `dropped` resolves.
    pub(super) async fn run(mut self, dropped: oneshot::Receiver<()>) {
        let shared = Arc::clone(&self.shared);
        let _lease = self.core.keep_alive();
        let root = Arc::clone(&self.plan.scope.root);
        let error = tokio::select! {
            biased;
            _ = dropped => client::Error::closed("cache"),
            error = self.keep() => error,
        };
        shared.end(Error::client(&root, error));
    }

    /// Follows session after session. Returns why there will be no other.
    async fn keep(&mut self) -> client::Error {
        loop {
            let session = match self.core.connected_session().await {
                Ok(session) => session,
                Err(error) => return error,
            };
            let began = self.core.clock.now();
            let end = self.follow(&session).await;
            self.measured.resync_aborted();
            match end {
                End::Gap => continue,
                End::Throttled => {}
                End::Failed(error) => self.failed(error),
            }
            let delay = self.core.next_delay(&mut self.backoff, began);
            tokio::time::sleep(delay).await;
        }
    }

    /// Arms the watch, compares everything, and follows the events until there is a gap.
    async fn follow(&mut self, session: &Arc<Session>) -> End {
        self.contending = Some(session.contender());
        if self.armed.is_some() {
            session.spread_out(&self.core.random).await;
        }
        let mut conditions = session.conditions();
        let Ok(connection) = session.connected().await else { return End::Gap };
        // The sync of the watch is for these calls as well.
        self.waiters.receive();
        self.read_only = session.lease().is_read_only();
        let asked = self.core.clock.now();
        self.measured.resync_begins();
        if let Err(end) = self.arm(session, connection).await {
            return end;
        }
        let Some((_, source)) = &mut self.armed else { return End::Gap };
        let watching = source.watching();
        // The comparison covers what was reported up to now.
        source.drained().await;
        let round = self.tracker.compare(watching);
        // A read-only server confirms nothing.
        self.proofs = (!self.read_only).then_some((asked, round)).into_iter().collect();
        // The sync was handed over after these calls.
        self.waiters.restart(round);
        let mut reads = Reads::new(session, watching, &self.plan.scope.root);
        self.proven = Some(asked);
        loop {
            self.tracker.begin();
            let (tracker, core) = (&mut self.tracker, &self.core);
            reads.fill(|| tracker.next_job().map(|(job, small)| (job.clone(), core.full_path(job.path()), small)));
            self.look_for_chroot(&mut reads);
            if self.publish(session) {
                continue;
            }
            self.report_chroot();
            let step = self.next(session, &mut reads, &mut conditions).await;
            match step {
                Step::Received(notices, answers) => {
                    if let Err(end) = self.handle(notices, answers) {
                        return end;
                    }
                }
                Step::Condition if *conditions.borrow() == Condition::Connected(connection) => {}
                Step::Condition => return End::Gap,
                Step::Asked => {
                    self.waiters.send();
                    reads.sync(&self.core.full_path(&self.plan.scope.root));
                }
                Step::Extended => {}
                Step::Proven(at) => self.proven(at),
                Step::RetryDue => self.tracker.retry_due(),
            }
        }
    }

    /// Ensures that changes are reported from now on, and that the server has caught up: reads that follow return
    /// nothing older than what any server has confirmed before.
    async fn arm(&mut self, session: &Arc<Session>, connection: u64) -> Result<(), End> {
        let root = self.core.full_path(&self.plan.scope.root);
        // The client restores persistent watches itself, if the session is the same.
        let is_armed = self
            .armed
            .as_ref()
            .is_some_and(|(of, source)| of.id() == session.id() && source.watching() == Watching::Persistent);
        let (sync, armed) = session.together(|| {
            let mode = if self.plan.scope.depth == 0 { WatchMode::Persistent } else { WatchMode::PersistentRecursive };
            (session.sync(&root), (!is_armed).then(|| session.watch_persistent(&root, mode)))
        });
        let armed = match armed {
            Some(armed) => Some(armed.await),
            None => None,
        };
        let source = match (sync.await, armed) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(Ok(watch))) => Source::persistent(watch),
            // A server before 3.6.
            (Ok(()), Some(Err(engine::Error::Unimplemented(_)))) => Source::one_shot(),
            (Err(error), _) | (Ok(()), Some(Err(error))) => {
                return Err(match session.wait_if_transient(error, connection).await {
                    Ok(()) => End::Gap,
                    Err(error) => end_of("watch", &self.plan.scope.root, error),
                });
            }
        };
        if let Some((of, before)) = self.armed.replace((Arc::clone(session), source))
            && of.id() == session.id()
        {
            self.replaced = Some(before);
        }
        Ok(())
    }

    async fn next(
        &mut self,
        session: &Session,
        reads: &mut Reads,
        conditions: &mut watch::Receiver<Condition>,
    ) -> Step {
        let extended = session.lease().extended();
        // Read before the events and answers: when none of these are left, all from before the proof have been taken.
        let proof = session.lease().latest_proof().filter(|proof| Some(*proof) > self.proven);
        let refused = self.tracker.refused().first();
        let again = refused.unwrap_or_else(tokio::time::Instant::now);
        let source = self.armed.as_mut().map(|(_, source)| source);
        tokio::select! {
            biased;
            step = receive(source, reads) => step,
            at = known(proof) => Step::Proven(at),
            _ = conditions.changed() => Step::Condition,
            Some(()) = self.waiters.asked() => Step::Asked,
            () = extended => Step::Extended,
            () = tokio::time::sleep_until(again), if refused.is_some() => Step::RetryDue,
        }
    }

    /// Handles events, then the answers that followed them.
    fn handle(&mut self, notices: Vec<Notice>, answers: Vec<Answer>) -> Result<(), End> {
        self.handle_notices(notices)?;
        for answer in answers {
            self.answer(answer)?;
        }
        Ok(())
    }

    fn handle_notices(&mut self, notices: Vec<Notice>) -> Result<(), End> {
        for notice in notices {
            match notice {
                Notice::Node(full, event) => {
                    let path = self.core.config.namespace.strip(&full);
                    self.tracker.handle_event(event, path);
                }
                Notice::Missed => return Err(End::Gap),
            }
        }
        Ok(())
    }

    fn answer(&mut self, answer: Answer) -> Result<(), End> {
        use engine::Error::NoNode;

        match answer {
            Answer::Looked(path, Ok(stat)) => self.tracker.looked(&path, stat),
            Answer::Looked(path, Err(error)) => {
                let content = self.content_after_error(Job::Read(Arc::clone(&path)), error)?;
                self.tracker.hidden(&path, content);
            }
            Answer::Read(path, Ok((data, stat))) => {
                let content = self.decode(data);
                self.tracker.read(&path, Some((stat, content)));
            }
            Answer::Read(path, Err(NoNode)) => self.tracker.read(&path, None),
            Answer::Read(path, Err(error)) => {
                let content = self.content_after_error(Job::Read(Arc::clone(&path)), error)?;
                self.tracker.not_read(&path, content);
            }
            Answer::Listed(path, Ok(listed)) => self.tracker.listed(&path, Some(listed)),
            Answer::Listed(path, Err(NoNode)) => self.tracker.listed(&path, None),
            Answer::Listed(path, Err(error)) => {
                let content = self.content_after_error(Job::List(Arc::clone(&path)), error)?;
                self.tracker.not_listed(&path, &content);
            }
            Answer::Synced(Ok(())) => {
                self.waiters.answered(self.tracker.round_of_now());
                self.answer_waiters();
            }
            Answer::Chroot(Ok(is_there)) => {
                if is_there && self.chroot == Chroot::Reported {
                    self.shared.recovered();
                }
                self.chroot = self.chroot.found(is_there);
            }
            Answer::Synced(Err(error)) | Answer::Chroot(Err(error)) => {
                return Err(end_of("sync", &self.plan.scope.root, error));
            }
        }
        Ok(())
    }

    /// Returns what is known of a node that could not be read or listed, unless the connection is the reason.
    fn content_after_error(&self, job: Job, error: engine::Error) -> Result<Content<T>, End> {
        if error == engine::Error::NoAuth {
            return Ok(Content::Denied);
        }
        let doing = if matches!(job, Job::List(_)) { "list the children of" } else { "read" };
        let error = match end_of(doing, job.path(), error) {
            End::Failed(error) => error,
            end => return Err(end),
        };
        if !self.tracker.refused().contains(&job) {
            let root = &*self.plan.scope.root;
            tracing::warn!(event = "cache_node_unreadable", path = root, %error, "a node of the cache cannot be read");
        }
        Ok(Content::Unreadable(Box::new(error)))
    }

    fn decode(&self, data: Vec<u8>) -> Content<T> {
        let error = match caught(|| (self.plan.decode)(&data)) {
            Ok(Ok(value)) => return Content::Decoded(value),
            Ok(Err(error)) => error,
            Err(panic) => panic.into(),
        };
        Content::Undecodable(Box::new(Undecodable { bytes: data, error }))
    }

    /// Publishes, if a round is over.
    fn publish(&mut self, session: &Session) -> bool {
        // It must be known first whether the tree is empty or the root of the connect string is missing.
        let is_unclear = self.chroot == Chroot::Unknown && self.tracker.lacks_root();
        if is_unclear || (self.chroot.is_missing() && self.confirmed.is_none()) {
            return false;
        }
        let Some(published) = self.tracker.finish() else { return false };
        self.replaced = None;
        let is_over = |(_, round): &(Instant, u64)| self.tracker.is_over(*round);
        let confirmed = self.proofs.extract_if(.., |proof| is_over(proof)).map(|(at, _)| at).max();
        if !self.chroot.is_missing() {
            self.confirmed = self.confirmed.max(confirmed);
        }
        let confirmed = (!self.read_only).then(|| self.confirmed.unwrap_or_else(|| self.core.clock.now()));
        let snapshot = Snapshot::new(
            published.nodes,
            SnapshotMeta {
                scope: Arc::clone(&self.plan.scope),
                unlistable: self.tracker.refused().unlistable(),
                zxid: self.tracker.newest(),
                is_settled: published.is_settled,
                clock: self.core.clock,
                fresh_for: session.timeout() / 3,
                confirmed,
            },
        );
        let mut changes = published.changes;
        if published.is_synced {
            changes.push(Change::Synced);
            tracing::debug!(
                event = "cache_synced",
                path = &*self.plan.scope.root,
                nodes = snapshot.len(),
                changes = changes.len() - 1,
                "the cache was compared with the servers"
            );
            self.measured.resync_ends(snapshot.len(), changes.len() - 1);
        }
        self.measured.published(&snapshot, self.tracker.refused().len());
        self.shared.publish(snapshot, changes);
        self.answer_waiters();
        if self.chroot == Chroot::Reported {
            // The publication cleared the error.
            self.chroot = Chroot::Missing;
        }
        true
    }

    /// Follows the root that the connect string names, while the root of the cache is missing.
    fn look_for_chroot(&mut self, reads: &mut Reads) {
        let is_named = self.core.ensemble.has_root();
        let is_needed = is_named && self.tracker.lacks_root();
        reads.follow_chroot(is_needed);
        if !is_needed {
            self.chroot = if is_named { Chroot::Unknown } else { Chroot::There };
        }
    }

    /// Reports once that the root of the connect string is missing, after what was published.
    fn report_chroot(&mut self) {
        if self.chroot == Chroot::Missing {
            self.chroot = Chroot::Reported;
            self.failed(client::Error::no_root());
            self.answer_waiters();
        }
    }

    fn answer_waiters(&mut self) {
        match self.chroot.is_missing() {
            true => self.waiters.answer(|_| true, &Err(Error::client(&self.plan.scope.root, client::Error::no_root()))),
            false if self.read_only => {}
            false => self.waiters.answer(|round| self.tracker.is_over(round), &Ok(self.shared.latest())),
        }
    }

    /// Records as of when the ensemble has confirmed everything.
    fn proven(&mut self, at: Instant) {
        self.proven = Some(at);
        if self.chroot.is_missing() {
            return;
        }
        let round = self.tracker.round_of_now();
        if self.tracker.is_over(round) {
            self.confirmed = self.confirmed.max(Some(at));
            let latest = self.shared.latest();
            latest.confirm(at);
            self.measured.confirmed(&latest);
        } else {
            self.proofs.retain(|(_, other)| *other != round);
            self.proofs.push((at, round));
        }
    }

    fn failed(&self, error: client::Error) {
        tracing::warn!(
            event = "cache_failed",
            path = &*self.plan.scope.root,
            %error,
            kind = ?error.kind(),
            "the cache could not be read"
        );
        self.shared.failed(Error::client(&self.plan.scope.root, error));
    }
}

/// Classifies an error that is not the state of a single node.
fn end_of(doing: &str, path: &str, error: engine::Error) -> End {
    match error {
        engine::Error::Throttled => End::Throttled,
        error if error.is_transient() => End::Gap,
        error => End::Failed(client::Error::of_any_session(doing, path, error)),
    }
}

/// Ends what the handles wait for, even if the task panics or is dropped with its runtime.
impl<T> Drop for Keeper<T> {
    fn drop(&mut self) {
        self.shared.end(Error::Closed { path: Arc::clone(&self.plan.scope.root) });
    }
}

/// Waits for events and answers. The answers, and the watches that they armed, are taken first, so that all events from
/// before the last answer are taken too.
async fn receive(mut source: Option<&mut Source>, reads: &mut Reads) -> Step {
    poll_fn(|cx| {
        let (mut answers, mut notices) = (Vec::new(), Vec::new());
        let answered = reads.answers(cx);
        if let Some(source) = &mut source {
            for Answered { answer, watch } in answered {
                watch.into_iter().for_each(|(path, watch)| source.add(path, watch));
                answers.push(answer);
            }
            source.drain(cx, &mut notices);
        }
        let is_empty = notices.is_empty() && answers.is_empty();
        if is_empty { Poll::Pending } else { Poll::Ready(Step::Received(notices, answers)) }
    })
    .await
}
