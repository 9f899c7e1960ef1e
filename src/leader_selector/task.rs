//! The task of a selector: stands in line, leads, and stands in line again, until the selector is closed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::builder::RequeuePolicy;
use super::error::Error;
use super::listener::LeaderSelectorListener;
use super::outcome::{Outcome, TermEnd};
use super::shared::Shared;
use super::state::Phase;
use super::yielding::others_stand_in;
use super::{BASE, CloseMode, term};
use crate::backend;
use crate::client::core::Core;
use crate::client::delays::Delays;
use crate::client::{self, Client};
use crate::contender::{Hold, LeftBehind, Line, News, Standing};

/// Delays after a listener failed, each twice the one before, up to the second figure.
const AFTER_FAILED_TERM: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Starts the task. It does not hold the client's handle, so a selector alone keeps its client alive only while it exists
/// itself.
pub(super) fn spawn(
    client: &Client,
    shared: &Arc<Shared>,
    listener: impl LeaderSelectorListener,
) -> watch::Receiver<bool> {
    let (finished, seen) = watch::channel(false);
    let core = client.core();
    let line = Arc::new(Line {
        dir: core.full_path(&shared.path).into(),
        base: BASE,
        also_count: Vec::new(),
        data: shared.id.clone().into_bytes(),
        watch_own: true,
        left_behind: LeftBehind::default(),
    });
    let task = Task {
        standing: Standing::new(core, &line),
        core: Arc::clone(core),
        shared: Arc::clone(shared),
        listener,
        line,
        failed_terms: Delays::new(AFTER_FAILED_TERM),
    };
    core.runtime.spawn(async move {
        task.run().await;
        finished.send_replace(true);
    });
    seen
}

/// What came of standing in line.
enum Stood {
    Held(Hold),
    /// The line cannot be entered, and nobody wants to go on trying.
    Failed,
    /// The selector is to end.
    Closing,
    /// The client was closed.
    Closed,
}

struct Task<L> {
    core: Arc<Core>,
    shared: Arc<Shared>,
    listener: L,
    line: Arc<Line>,
    standing: Standing,
    failed_terms: Delays,
}

/// However it ends: also when it is dropped with its runtime, nobody shall wait for ever.
impl<L> Drop for Task<L> {
    fn drop(&mut self) {
        self.standing.relinquish();
        self.shared.publish(Phase::Closed);
        self.shared.outcomes.end();
    }
}

impl<L: LeaderSelectorListener> Task<L> {
    async fn run(mut self) {
        loop {
            match self.stand().await {
                Stood::Held(hold) => {
                    let pause = self.term(hold).await;
                    if !self.rest(pause).await {
                        break;
                    }
                }
                Stood::Failed => {
                    if !self.rest(Duration::ZERO).await {
                        break;
                    }
                }
                Stood::Closing => {
                    self.leave().await;
                    break;
                }
                Stood::Closed => break,
            }
        }
    }

    /// Stands in line until first.
    async fn stand(&mut self) -> Stood {
        let shared = Arc::clone(&self.shared);
        loop {
            let news = tokio::select! {
                biased;
                () = shared.closing(CloseMode::Finish) => return Stood::Closing,
                news = self.standing.next() => news,
            };
            let (path, id) = (&*shared.path, &shared.id);
            match &news {
                News::Held(hold) => tracing::info!(path, id, token = hold.token(), "leading"),
                News::Failed(error) => tracing::warn!(path, id, %error, kind = ?error.kind(), "cannot take part"),
                news => tracing::debug!(path, id, ?news, "selector"),
            }
            shared.publish(match news {
                News::Entering => Phase::Entering,
                News::Entered(_) => continue,
                News::Behind | News::Unproven => Phase::Waiting,
                News::Held(hold) => return Stood::Held(hold),
                News::Suspended => Phase::Suspended,
                News::Lost => Phase::Lost,
                News::Failed(error) => {
                    let failed = Phase::Failed(Error::client(path, error));
                    if shared.requeue.is_none() {
                        // First, so that who sees the failure can requeue.
                        shared.used();
                        shared.publish(failed);
                        return Stood::Failed;
                    }
                    failed
                }
                News::Closed => return Stood::Closed,
            });
        }
    }

    /// One term, up to the deletion of the node; how long to pause after it.
    async fn term(&mut self, hold: Hold) -> Duration {
        let (began, fencing_token) = (self.core.clock.now(), hold.token());
        // First, so that who has seen it lead can requeue.
        self.shared.used();
        let end = term::lead(&self.shared, &self.listener, &mut self.standing, hold).await;
        let (path, id) = (&*self.shared.path, &self.shared.id);
        let pause = if end.is_failure() {
            tracing::warn!(path, id, token = fencing_token, %end, "term over");
            self.failed_terms.next(&self.core, began)
        } else {
            tracing::info!(path, id, token = fencing_token, %end, "term over");
            if let TermEnd::Returned = end {
                self.failed_terms = Delays::new(AFTER_FAILED_TERM);
            }
            Duration::ZERO
        };
        let release_error = self.leave().await;
        self.shared.publish_outcome(Outcome { fencing_token, end, release_error });
        pause
    }

    /// Leaves the line; the error, if the node could not be deleted.
    async fn leave(&mut self) -> Option<Error> {
        let path = &self.shared.path;
        let error = match self.standing.leave().await {
            // What was lost or given up with the session needs no deleting by us.
            Ok(()) | Err(backend::Error::SessionEnded) => None,
            Err(error) => Some(client::Error::from_backend("delete our node in", path, error)),
        };
        let error = error.map(|error| Error::client(path, error));
        self.shared.set_left(error.clone());
        error
    }

    /// Stays out of the line until it is time, or somebody asks, to enter it; false if the selector is to end.
    async fn rest(&mut self, pause: Duration) -> bool {
        let shared = Arc::clone(&self.shared);
        let again = async {
            match shared.requeue {
                Some(policy) => self.pause(policy, pause).await,
                None => {
                    if !shared.is_wanted() && shared.state.borrow().error().is_none() {
                        shared.publish(Phase::Idle);
                    }
                    shared.wanted().await;
                    if !pause.is_zero() {
                        shared.publish(Phase::Pausing);
                        tokio::time::sleep(pause).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = shared.closing(CloseMode::Finish) => false,
            () = again => true,
        }
    }

    async fn pause(&mut self, policy: RequeuePolicy, pause: Duration) {
        let jitter = policy.jitter.mul_f64(self.core.random.unit());
        let delay = pause.saturating_add(policy.delay).saturating_add(jitter);
        if delay.is_zero() && policy.yield_to_others.is_zero() {
            return;
        }
        self.shared.publish(Phase::Pausing);
        tokio::time::sleep(delay).await;
        if !policy.yield_to_others.is_zero() {
            let others = others_stand_in(&self.core, &self.line);
            // Nobody came: then it is our turn again.
            let _ = tokio::time::timeout(policy.yield_to_others, others).await;
        }
    }
}
