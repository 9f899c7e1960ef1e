//! The task of a latch: takes part in the election, session after session, until the latch is closed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

use super::error::Error;
use super::listener::Listeners;
use super::state::{LatchState, LatchStatus, Phase};
use super::{BASE, CloseMode};
use crate::backend;
use crate::client::core::Core;
use crate::client::{self, Client};
use crate::contender::{Hold, Leaving, LeftBehind, Line, News, Standing};

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
    leaving: Leaving,
    /// Why the node could not be deleted.
    failure: Mutex<Option<Error>>,
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
            leaving: Leaving::default(),
            failure: Mutex::default(),
        }
    }

    pub(super) fn our_path(&self) -> Option<String> {
        lock(&self.our_path).as_deref().map(str::to_owned)
    }

    pub(super) fn closed(&self) -> Error {
        Error::Closed { path: Arc::clone(&self.path) }
    }

    /// Ends the latch. A silent end needs no listeners to hear of it: the leadership ends now, and the delete leaves at once.
    pub(super) fn end(&self, mode: CloseMode, stop: &watch::Sender<bool>) {
        let tell = || {
            // The first word counts.
            let _ = self.ending.set(mode);
            if mode == CloseMode::Silent {
                self.silenced.send_replace(true);
            }
            stop.send_replace(true);
        };
        self.leaving.release(tell, || match mode {
            CloseMode::Silent => self.state.borrow().term().cloned(),
            CloseMode::NotifyLeader => None,
        });
    }

    /// How leaving went.
    pub(super) fn outcome(&self) -> Result<(), Error> {
        lock(&self.failure).clone().map_or(Ok(()), Err)
    }

    /// The number of the last failure that a waiter was told.
    pub(super) fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    pub(super) fn tell(&self, failure: u64) {
        self.told.fetch_max(failure, Ordering::AcqRel);
    }

    fn set_our_path(&self, path: Option<Arc<str>>) {
        *lock(&self.our_path) = path;
    }

    fn publish(&self, phase: Phase) {
        let (former, state) = (self.term(), LatchState::new(phase));
        self.log_end(former, state.status());
        self.listeners.publish(&self.state, state);
    }

    /// Publishes a term, unless the latch is ending: its node is about to be deleted.
    fn publish_term(&self, hold: Hold) {
        let (former, token) = (self.term(), hold.token());
        let leads = self.leaving.in_order(|| {
            let leads = self.ending.get().is_none();
            if leads {
                self.listeners.publish(&self.state, LatchState::new(Phase::Leading(hold)));
            }
            leads
        });
        if leads {
            // Another term can only follow a lapse of the lease that was not told by itself.
            self.log_end(former, LatchStatus::Suspended);
            tracing::info!(path = &*self.path, id = self.id, token, "leading");
        }
    }

    /// The token of the term that the published state began.
    fn term(&self) -> Option<i64> {
        self.state.borrow().term().map(Hold::token)
    }

    /// Logs the end of a term.
    fn log_end(&self, term: Option<i64>, why: LatchStatus) {
        if let Some(token) = term {
            tracing::info!(path = &*self.path, id = self.id, token, %why, "leading no more");
        }
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

/// However it ends: also when it is dropped with its runtime, nobody shall wait for ever.
impl Drop for Task {
    fn drop(&mut self) {
        self.shared.publish(Phase::Closed);
        self.shared.listeners.clear();
    }
}

impl Task {
    async fn run(self, mut stop: watch::Receiver<bool>) {
        let line = Arc::new(Line {
            dir: self.core.full_path(&self.shared.path).into(),
            base: BASE,
            also_count: Vec::new(),
            data: self.shared.id.clone().into_bytes(),
            watch_own: true,
            left_behind: LeftBehind::default(),
        });
        let mut standing = Standing::new(&self.core, &line);
        loop {
            let news = tokio::select! {
                biased;
                // Boxed, as a task takes as much memory as its largest step, and it waits far longer than it leaves.
                () = asked(&mut stop) => break Box::pin(self.leave(standing)).await,
                news = standing.next() => news,
            };
            if let News::Closed = news {
                break;
            }
            let leads = matches!(news, News::Held(_));
            self.tell(news);
            if leads {
                // Those that wait for the leadership run before the place writes its next requests.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Turns what becomes of the contender into the latch's state.
    fn tell(&self, news: News) {
        let shared = &*self.shared;
        let (path, id) = (&*shared.path, &shared.id);
        match &news {
            News::Failed(error) => tracing::warn!(path, id, %error, kind = ?error.kind(), "cannot take part"),
            news => tracing::debug!(path, id, ?news, "latch"),
        }
        shared.publish(match news {
            News::Entering => Phase::Entering,
            News::Entered(node) => {
                shared.set_our_path(Some(self.core.config.namespace.strip(&node).into()));
                return;
            }
            News::Behind | News::Unproven => Phase::Waiting,
            News::Held(hold) => return shared.publish_term(hold),
            News::Suspended => Phase::Suspended,
            News::Lost => {
                shared.set_our_path(None);
                Phase::Lost
            }
            News::Failed(error) => {
                shared.set_our_path(None);
                let number = shared.failures.fetch_add(1, Ordering::AcqRel) + 1;
                Phase::Failed(number, Error::client(path, error))
            }
            News::Closed => Phase::Closed,
        });
    }

    /// Leadership ends, listeners are told, then the node is deleted: in this order, so that no two lead.
    async fn leave(&self, mut standing: Standing) {
        let handed = self.shared.leaving.handed_over();
        standing.relinquish();
        self.shared.set_our_path(None);
        let mode = self.shared.ending.get().copied().unwrap_or_default();
        let closed = LatchState::new(Phase::Closed);
        self.shared.log_end(self.shared.term(), closed.status());
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
        match standing.leave_after(handed).await {
            // What was lost or given up with the session needs no deleting by us; anything else the caller must know.
            Ok(()) | Err(backend::Error::SessionEnded) => {}
            Err(error) => {
                let error = client::Error::from_backend("delete our node in", &self.shared.path, error);
                *lock(&self.shared.failure) = Some(Error::client(&self.shared.path, error));
            }
        }
    }
}

/// Resolves when the latch is to end; also when its handle is gone without a word.
async fn asked(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
