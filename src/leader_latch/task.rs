//! The task of a latch: stands in line, session after session, until the latch is closed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::error::Error;
use super::listener::Listeners;
use super::state::{LatchState, Phase};
use super::{BASE, CloseMode};
use crate::client::clock::Instant;
use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{self, Client};
use crate::contender::{self, End, Left, Line, Observer, State};

/// Delays before entering again after an error that does not pass by itself, and after the node was deleted by somebody:
/// each twice the one before, up to the second figure.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
const AFTER_DELETION: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A place that lasted so long starts the delays anew.
const CALM: Duration = Duration::from_secs(10);

/// What the handle and the task of a latch share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: Arc<str>,
    pub(super) id: String,
    pub(super) close_mode: CloseMode,
    /// How the latch was asked to end; the first word counts.
    ending: OnceLock<CloseMode>,
    /// Somebody no longer cares whether listeners have heard.
    silenced: watch::Sender<bool>,
    pub(super) state: watch::Sender<LatchState>,
    pub(super) listeners: Listeners,
    our_path: Mutex<Option<Arc<str>>>,
    /// How often the line could not be entered, and how many of these failures a waiter was told.
    failures: AtomicU64,
    told: AtomicU64,
    leaving: Mutex<Option<Error>>,
}

impl Shared {
    pub(super) fn new(path: Arc<str>, id: String, close_mode: CloseMode) -> Self {
        Shared {
            path,
            id,
            close_mode,
            ending: OnceLock::new(),
            silenced: watch::Sender::new(false),
            state: watch::Sender::new(LatchState::new(Phase::Entering)),
            listeners: Listeners::default(),
            our_path: Mutex::default(),
            failures: AtomicU64::new(0),
            told: AtomicU64::new(0),
            leaving: Mutex::default(),
        }
    }

    pub(super) fn our_path(&self) -> Option<String> {
        self.our_path.lock().unwrap_or_else(PoisonError::into_inner).as_deref().map(str::to_owned)
    }

    pub(super) fn closed(&self) -> Error {
        Error::Closed { path: Arc::clone(&self.path) }
    }

    /// Sets how the latch ends, if that is not settled yet.
    pub(super) fn set_ending(&self, mode: CloseMode) {
        // The first word counts.
        let _ = self.ending.set(mode);
        if mode == CloseMode::Silent {
            self.silenced.send_replace(true);
        }
    }

    /// How leaving went.
    pub(super) fn outcome(&self) -> Result<(), Error> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    /// The number of the last failure that a waiter was told.
    pub(super) fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    pub(super) fn tell(&self, failure: u64) {
        self.told.fetch_max(failure, Ordering::AcqRel);
    }

    fn set_our_path(&self, path: Option<Arc<str>>) {
        *self.our_path.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    fn publish(&self, phase: Phase) {
        self.listeners.publish(&self.state, LatchState::new(phase));
    }
}

/// Starts the task. It does not hold the client's handle, so a latch alone keeps its client alive only while it exists
/// itself.
pub(super) fn spawn(client: &Client, shared: &Arc<Shared>) -> (watch::Sender<bool>, watch::Receiver<bool>) {
    let (stop, stopped) = watch::channel(false);
    let (finished, seen) = watch::channel(false);
    let core = Arc::clone(client.core());
    let task = Task { core, shared: Arc::clone(shared) };
    client.core().runtime.spawn(async move {
        task.run(stopped).await;
        finished.send_replace(true);
    });
    (stop, seen)
}

struct Task {
    core: Arc<Core>,
    shared: Arc<Shared>,
}

impl Task {
    async fn run(self, mut stop: watch::Receiver<bool>) {
        let _keep_alive = self.core.keep_alive();
        let line = Line {
            dir: self.core.full_path(&self.shared.path).into(),
            base: BASE,
            also_count: Vec::new(),
            data: self.shared.id.clone().into_bytes(),
            watch_own: true,
        };
        let mut failures = Delays::new(AFTER_FAILURE);
        let mut deletions = Delays::new(AFTER_DELETION);
        loop {
            let session = tokio::select! {
                biased;
                () = asked(&mut stop) => break,
                session = self.core.connected_session() => session,
            };
            // The client was closed.
            let Ok(session) = session else { break };
            let began = self.core.clock.now();
            let left = self.stand(&session, &line, &mut stop).await;
            let delay = match &left.end {
                End::Asked => {
                    self.leave(&session, &line, left).await;
                    return;
                }
                End::SessionOver => {
                    self.shared.publish(Phase::Lost);
                    continue;
                }
                End::NodeGone => {
                    tracing::warn!(path = &*self.shared.path, "our node was deleted by somebody else");
                    self.shared.publish(Phase::Lost);
                    deletions.next(&self.core, began)
                }
                End::Failed(error) => {
                    let error = Error::client(&self.shared.path, error.clone());
                    let path = &*self.shared.path;
                    tracing::warn!(path, id = self.shared.id, %error, kind = ?error.kind(), "cannot stand in line");
                    let number = self.shared.failures.fetch_add(1, Ordering::AcqRel) + 1;
                    self.shared.publish(Phase::Failed(number, error));
                    failures.next(&self.core, began)
                }
            };
            drop(left);
            tokio::select! {
                biased;
                () = asked(&mut stop) => break,
                () = tokio::time::sleep(delay) => {}
            }
        }
        self.finish();
    }

    async fn stand(&self, session: &Arc<Session>, line: &Line, stop: &mut watch::Receiver<bool>) -> Left {
        let mut reporter = Reporter { core: &self.core, shared: &self.shared };
        let left = contender::stand(&self.core, session, line, &mut reporter, stop).await;
        self.shared.set_our_path(None);
        left
    }

    /// Leadership ends, listeners are told, then the node is deleted: in this order, so that no two lead.
    async fn leave(&self, session: &Arc<Session>, line: &Line, left: Left) {
        let mode = self.shared.ending.get().copied().unwrap_or_default();
        let closed = LatchState::new(Phase::Closed);
        match mode {
            CloseMode::Silent => {
                self.shared.listeners.clear();
                self.shared.listeners.publish(&self.shared.state, closed);
            }
            CloseMode::NotifyLeader => {
                let heard = self.shared.listeners.publish_and_wait(&self.shared.state, closed);
                let mut silenced = self.shared.silenced.subscribe();
                tokio::select! {
                    biased;
                    () = heard => {}
                    _ = silenced.wait_for(|silenced| *silenced) => {}
                }
            }
        }
        if let Err(error) = contender::leave(session, line, left).await {
            // What was lost or given up with the session needs no deleting by us; anything else the caller must know.
            if error != crate::backend::Error::SessionEnded {
                let error = client::Error::from_backend("delete our node in", &self.shared.path, error);
                *self.shared.leaving.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Error::client(&self.shared.path, error));
            }
        }
        self.finish();
    }

    fn finish(&self) {
        self.shared.publish(Phase::Closed);
        self.shared.listeners.clear();
    }
}

/// Resolves when the latch is to end; also when its handle is gone without a word.
async fn asked(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Turns what the contender says into the latch's state.
struct Reporter<'a> {
    core: &'a Core,
    shared: &'a Shared,
}

impl Observer for Reporter<'_> {
    fn entered(&mut self, path: &Arc<str>) {
        let ours = self.core.config.namespace.strip(path);
        tracing::debug!(path = ours, "standing in line");
        self.shared.set_our_path(Some(ours.into()));
    }

    fn changed(&mut self, state: State) {
        match &state {
            State::Held(hold) => {
                tracing::info!(path = &*self.shared.path, id = self.shared.id, token = hold.token(), "leading");
            }
            state => tracing::debug!(path = &*self.shared.path, id = self.shared.id, ?state, "latch"),
        }
        self.shared.publish(match state {
            State::Entering => Phase::Entering,
            State::Waiting => Phase::Waiting,
            State::Held(hold) => Phase::Leading(hold),
            State::Suspended => Phase::Suspended,
        });
    }
}

/// Delays that double, with jitter, until things have been calm for a while.
struct Delays {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Delays {
    fn new((first, most): (Duration, Duration)) -> Self {
        Delays { first, most, next: first }
    }

    fn next(&mut self, core: &Core, began: Instant) -> Duration {
        if core.clock.now().since(began) >= CALM {
            self.next = self.first;
        }
        let delay = self.next;
        self.next = (delay * 2).min(self.most);
        delay.mul_f64(0.5 + core.random.unit() / 2.0)
    }
}
