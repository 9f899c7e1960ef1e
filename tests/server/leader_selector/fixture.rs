//! Shared by the tests of the selector: listeners that can be looked at, and helpers for selectors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_selector::{
    BoxError, LeaderSelector, LeaderSelectorListener, Leadership, Outcome, Outcomes, RequeuePolicy, SelectorStatus,
};

pub(crate) use crate::fixture::*;
use crate::support::within;

/// The record of all listeners of a test.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    running: AtomicUsize,
    most: AtomicUsize,
    terms: Mutex<Vec<(String, i64)>>,
}

impl Stage {
    pub(crate) fn terms(&self) -> Vec<(String, i64)> {
        self.terms.lock().expect("no panic while locked").clone()
    }

    /// The most terms that ran at once, and how many run now.
    pub(crate) fn most_and_now(&self) -> (usize, usize) {
        (self.most.load(Ordering::SeqCst), self.running.load(Ordering::SeqCst))
    }
}

/// Leads for a time, or until dropped.
pub(crate) struct Actor {
    id: String,
    stage: Arc<Stage>,
    time: Option<Duration>,
}

struct Running<'a>(&'a Stage);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl LeaderSelectorListener for Actor {
    async fn take_leadership(&self, leadership: Leadership) -> Result<(), BoxError> {
        let running = self.stage.running.fetch_add(1, Ordering::SeqCst) + 1;
        let _running = Running(&self.stage);
        self.stage.most.fetch_max(running, Ordering::SeqCst);
        self.stage.terms.lock().expect("no panic").push((self.id.clone(), leadership.fencing_token()));
        match self.time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
        Ok(())
    }
}

/// A selector that requeues by itself.
pub(crate) fn selector(
    client: &Client,
    path: &str,
    id: &str,
    stage: &Arc<Stage>,
    time: impl Into<Option<Duration>>,
) -> LeaderSelector {
    let actor = Actor { id: id.to_owned(), stage: Arc::clone(stage), time: time.into() };
    let builder = LeaderSelector::builder(client, path).id(id).auto_requeue(RequeuePolicy::default());
    builder.start(actor).expect("the selector starts")
}

/// Waits until the selector has this status.
pub(crate) async fn reaches(selector: &LeaderSelector, status: SelectorStatus) {
    let mut states = selector.state();
    let what = format!("{} is {status}", selector.id());
    let reached = within(&what, SOON, states.wait_for(|state| state.status() == status)).await;
    drop(reached.expect("the selector is alive"));
}

pub(crate) async fn leads(selector: &LeaderSelector) {
    reaches(selector, SelectorStatus::Leading).await;
}

pub(crate) async fn next(outcomes: &mut Outcomes) -> Outcome {
    within("a term ends", SOON, outcomes.next()).await.expect("the selector is not closed")
}
