//! Shared by the tests of the selector: listeners that can be looked at, and helpers for selectors.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use zookeeper_recipes::leader_selector::{
    BoxError, LeaderSelector, LeaderSelectorBuilder, LeaderSelectorListener, Leadership, Outcome, Outcomes,
    SelectorStatus,
};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::{T, within};

pub(crate) const PATH: &str = "/elections/one";

/// A server on which the directory of the election exists, and two clients.
pub(crate) async fn setup() -> (TestingServer, Client, Client) {
    let server = TestingServer::start();
    for path in ["/elections", PATH] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
    let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    (server, one, two)
}

pub(crate) fn builder(client: &Client, id: &str) -> LeaderSelectorBuilder {
    LeaderSelector::builder(client, PATH).id(id)
}

/// The behaviour of a term.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    /// Leads so long, then returns.
    For(Duration),
    /// Leads until dropped.
    ForEver,
    /// Leads until it is told that it leads no more, then takes so long to return.
    UntilLost(Duration),
    /// Returns an error after so long.
    Fail(Duration),
    /// Panics after so long.
    Panic(Duration),
}

/// The record of all listeners together.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    /// Terms that run now.
    pub(crate) running: AtomicUsize,
    /// The most that ever ran at once.
    pub(crate) most: AtomicUsize,
    /// Ids and tokens of the terms, in the order of their begin.
    pub(crate) terms: Mutex<Vec<(String, i64)>>,
    /// How many terms came to their end without being dropped.
    pub(crate) finished: AtomicUsize,
}

impl Stage {
    pub(crate) fn new() -> Arc<Stage> {
        Arc::default()
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    pub(crate) fn finished(&self) -> usize {
        self.finished.load(Ordering::SeqCst)
    }

    pub(crate) fn terms(&self) -> Vec<(String, i64)> {
        self.terms.lock().expect("no panic while locked").clone()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.terms().into_iter().map(|(id, _)| id).collect()
    }

    pub(crate) fn tokens(&self) -> Vec<i64> {
        self.terms().into_iter().map(|(_, token)| token).collect()
    }
}

/// A term on the stage; it leaves when dropped.
struct Appearance<'a>(&'a Stage);

impl<'a> Appearance<'a> {
    fn new(stage: &'a Stage) -> Self {
        let running = stage.running.fetch_add(1, Ordering::SeqCst) + 1;
        stage.most.fetch_max(running, Ordering::SeqCst);
        Appearance(stage)
    }
}

impl Drop for Appearance<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Does what is in the script, the last act again and again.
pub(crate) struct Actor {
    id: String,
    stage: Arc<Stage>,
    script: Mutex<VecDeque<Act>>,
}

pub(crate) fn actor(id: &str, stage: &Arc<Stage>, script: impl IntoIterator<Item = Act>) -> Actor {
    Actor { id: id.to_owned(), stage: Arc::clone(stage), script: Mutex::new(script.into_iter().collect()) }
}

impl LeaderSelectorListener for Actor {
    async fn take_leadership(&self, leadership: Leadership) -> Result<(), BoxError> {
        let _here = Appearance::new(&self.stage);
        assert!(leadership.is_held(), "called by who leads");
        self.stage.terms.lock().expect("no panic").push((self.id.clone(), leadership.fencing_token()));
        let act = {
            let mut script = self.script.lock().expect("no panic while locked");
            if script.len() > 1 { script.pop_front() } else { script.front().copied() }
        };
        match act.expect("a script") {
            Act::For(time) => tokio::time::sleep(time).await,
            Act::ForEver => std::future::pending().await,
            Act::UntilLost(time) => {
                leadership.lost().await;
                assert!(!leadership.is_held());
                tokio::time::sleep(time).await;
            }
            Act::Fail(time) => {
                tokio::time::sleep(time).await;
                return Err("the work failed".into());
            }
            Act::Panic(time) => {
                tokio::time::sleep(time).await;
                panic!("the work panicked");
            }
        }
        self.stage.finished.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Waits until the selector has this status.
pub(crate) async fn reaches(selector: &LeaderSelector, status: SelectorStatus) {
    let mut states = selector.state();
    let what = format!("{} is {status}", selector.id());
    let reached = within(&what, T * 4, states.wait_for(|state| state.status() == status)).await;
    drop(reached.expect("the selector is alive"));
}

pub(crate) async fn leads(selector: &LeaderSelector) {
    reaches(selector, SelectorStatus::Leading).await;
    assert!(selector.has_leadership());
}

pub(crate) async fn next(outcomes: &mut Outcomes) -> Outcome {
    within("a term ends", T * 4, outcomes.next()).await.expect("the selector is not closed")
}
