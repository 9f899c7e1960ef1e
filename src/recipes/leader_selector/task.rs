//! The task of a selector. It waits, leads, and waits again, until the selector is closed.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::listener::LeaderSelectorListener;
use super::outcome::{Outcome, TermEnd};
use super::requeue::RequeuePolicy;
use super::shared::Shared;
use super::state::Phase;
use super::{RunningTerm, term};
use crate::client::core::Core;
use crate::client::task::Task;
use crate::client::{self, Client};
use crate::contender::measure::Terms;
use crate::contender::observe::Observer;
use crate::contender::{Contender, Hold, Spec, State};
use crate::engine;
use crate::layout::line;
use crate::util::backoff::Backoff;

/// The first and the longest delay after a listener failed. Each is twice the one before.
const AFTER_FAILED_TERM: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Starts the task. The task does not keep a handle of the client, so the selector keeps its client alive only while it
/// exists.
pub(super) fn spawn(
    client: &Client,
    shared: &Arc<Shared>,
    listener: impl LeaderSelectorListener,
) -> Task<Result<(), Error>> {
    let core = client.core();
    let spec = Arc::new(Spec::of_participant(core, &shared.path, line::LOCK, &shared.id));
    let participant = Participant {
        contender: Contender::new(core, &spec),
        core: Arc::clone(core),
        shared: Arc::clone(shared),
        listener,
        left: Ok(()),
        failed_terms: Backoff::new(AFTER_FAILED_TERM),
        terms: Terms::new(core, "leader_selector", &shared.path, &["failed", "panicked"]),
    };
    Task::spawn(&core.runtime, participant.run())
}

/// How a wait for the leadership ended.
enum WaitEnd {
    Held(Hold),
    /// The line cannot be entered, and the selector must not retry by itself.
    Failed,
    /// The selector must end.
    Closing,
    /// The client was closed.
    Closed,
}

struct Participant<L> {
    core: Arc<Core>,
    shared: Arc<Shared>,
    listener: L,
    contender: Contender,
    /// Whether the node could be deleted the last time the contender left the line.
    left: Result<(), Error>,
    failed_terms: Backoff,
    terms: Terms,
}

/// Notifies waiters however the task ends, even if it is dropped with its runtime.
impl<L> Drop for Participant<L> {
    fn drop(&mut self) {
        self.contender.relinquish();
        self.shared.publish(Phase::Contending(State::Closed));
        self.shared.outcomes.end();
    }
}

impl<L: LeaderSelectorListener> Participant<L> {
    async fn run(mut self) -> Result<(), Error> {
        loop {
            let pause = match self.wait_in_line().await {
                WaitEnd::Held(hold) => self.term(hold).await,
                WaitEnd::Failed => Duration::ZERO,
                WaitEnd::Closing => {
                    self.leave().await;
                    break;
                }
                WaitEnd::Closed => break,
            };
            if !self.rest(pause).await {
                break;
            }
        }
        self.left.clone()
    }

    /// Waits until the contender holds.
    async fn wait_in_line(&mut self) -> WaitEnd {
        let shared = Arc::clone(&self.shared);
        loop {
            let state = tokio::select! {
                biased;
                () = shared.closing(RunningTerm::Finish) => return WaitEnd::Closing,
                state = self.contender.next() => state,
            };
            let (path, id) = (&*shared.path, &shared.id);
            match state {
                State::Held(hold) => {
                    tracing::info!(event = "leading", path, id, token = hold.token(), "leading");
                    return WaitEnd::Held(hold);
                }
                State::Failed(error) => {
                    tracing::warn!(
                        event = "cannot_take_part",
                        path,
                        id,
                        %error,
                        kind = ?error.kind(),
                        "cannot enter the election"
                    );
                    let failed = Phase::Failed(Error::client(path, error));
                    if shared.requeue.is_some() {
                        shared.publish(failed);
                        continue;
                    }
                    // Before the state is published, so that a caller that sees the failure can requeue.
                    shared.used();
                    shared.publish(failed);
                    return WaitEnd::Failed;
                }
                State::Closed => return WaitEnd::Closed,
                state => {
                    tracing::debug!(
                        event = "state_changed",
                        path,
                        id,
                        state = state.name(),
                        node = state.node(),
                        "the contender's state has changed"
                    );
                    // In the published state, a contender that has a node is still entering.
                    if !matches!(state, State::Entered(_)) {
                        shared.publish(Phase::Contending(state));
                    }
                }
            }
        }
    }

    /// Runs one term, up to the deletion of the node. Returns how long to pause after it.
    async fn term(&mut self, hold: Hold) -> Duration {
        let (began, fencing_token) = (self.core.clock.now(), hold.token());
        // Before the state is published, so that a caller that sees it lead can requeue.
        self.shared.used();
        self.terms.begin();
        let end = term::lead(&self.shared, &self.listener, &mut self.contender, hold).await;
        self.terms.end(end.name());
        let (path, id) = (&*self.shared.path, &self.shared.id);
        let pause = if end.is_failure() {
            tracing::warn!(event = "leadership_ended", path, id, token = fencing_token, %end, "term over");
            self.core.next_delay(&mut self.failed_terms, began)
        } else {
            tracing::info!(event = "leadership_ended", path, id, token = fencing_token, %end, "term over");
            if let TermEnd::Returned = end {
                self.failed_terms = Backoff::new(AFTER_FAILED_TERM);
            }
            Duration::ZERO
        };
        let release_error = self.leave().await;
        self.shared.publish_outcome(Outcome { fencing_token, end, release_error });
        pause
    }

    /// Leaves the line. Returns the error if the node could not be deleted.
    async fn leave(&mut self) -> Option<Error> {
        let path = &self.shared.path;
        let error = match self.contender.leave().await {
            // A node that was lost or given up with the session needs no delete.
            Ok(()) | Err(engine::Error::SessionEnded) => None,
            Err(error) => Some(client::Error::from_engine("delete our node in", path, error)),
        };
        let error = error.map(|error| Error::client(path, error));
        self.left = error.clone().map_or(Ok(()), Err);
        error
    }

    /// Stays out of the line until it is time to enter, or a caller requeues. Returns false if the selector must end.
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
            () = shared.closing(RunningTerm::Finish) => false,
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
            let mut line = Observer::new(&self.core, &self.shared.path, line::LOCK);
            // If the line cannot be observed, entering it fails with the same error and reports it.
            let _ = tokio::time::timeout(policy.yield_to_others, line.occupied()).await;
        }
    }
}
