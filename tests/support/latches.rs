//! Helpers for latches, on real servers and in memory.

// Each test binary uses only a part of it.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch, LeaderLatchListener, Leadership};

use crate::fixture::{eventually, within};

/// How long anything may take that is only a matter of requests, answers and the end of a session.
const SOON: Duration = Duration::from_secs(20);

/// The leadership of a latch that is expected to get it.
pub(crate) async fn leads(latch: &LeaderLatch) -> Leadership {
    let what = format!("{} leads", latch.id());
    let waiting = within(&what, SOON, latch.wait_for_leadership());
    waiting.await.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Starts a latch that can be asked to resign, and waits until it can be.
pub(crate) async fn askable(client: &Client, path: &str, id: &str) -> LeaderLatch {
    let latch = LeaderLatch::builder(client, path).id(id).revocable(Duration::ZERO).start().expect("the latch starts");
    can_be_asked(client, &latch).await;
    latch
}

/// Waits until a latch can be asked to resign.
pub(crate) async fn can_be_asked(client: &Client, latch: &LeaderLatch) {
    eventually("it can be asked", SOON, || async {
        let Some(node) = latch.our_path() else { return false };
        accepts_requests(client, latch.path(), &node).await
    })
    .await;
}

/// Whether there is a node for requests to the participant with this node.
pub(crate) async fn accepts_requests(client: &Client, path: &str, node: &str) -> bool {
    let request = node.replace(path, &format!("{path}-requests")) + "-request";
    client.exists(&request).await.expect("an answer").is_some()
}

/// As `leads`, for a latch that may be told of an error in between.
pub(crate) async fn leads_in_the_end(latch: &LeaderLatch) -> Leadership {
    let mut states = latch.state();
    let what = format!("{} leads in the end", latch.id());
    let led = within(&what, SOON, states.wait_for(|state| state.is_leader())).await;
    let led = led.expect("the latch is alive");
    led.leadership().expect("a leader has its leadership")
}

/// Waits until the latch has this status.
pub(crate) async fn reaches(latch: &LeaderLatch, status: LatchStatus) {
    let mut states = latch.state();
    let what = format!("{} is {status:?}", latch.id());
    let reached = within(&what, SOON, states.wait_for(|state| state.status() == status)).await;
    drop(reached.expect("the latch is alive"));
}

/// Waits until the latch waits behind another participant; returns its node.
pub(crate) async fn waits(latch: &LeaderLatch) -> String {
    reaches(latch, LatchStatus::Waiting).await;
    latch.our_path().expect("a waiting latch has a node")
}

/// The ids of the line, in order.
pub(crate) async fn line_of(latch: &LeaderLatch) -> Vec<String> {
    let line = latch.participants().await.expect("the participants");
    line.into_iter().map(|participant| participant.id).collect()
}

/// Waits until the ids of the line are these, in order.
pub(crate) async fn line_becomes(latch: &LeaderLatch, ids: &[&str]) {
    eventually(&format!("the line is {ids:?}"), SOON, || async { line_of(latch).await == ids }).await;
}

/// Looks again and again, for the time given, and panics if one of the latches ever leads.
pub(crate) async fn no_latch_leads_for(time: Duration, latches: &[&LeaderLatch]) {
    let watching = latches.iter().map(|latch| async {
        let mut states = latch.state();
        let led = states.wait_for(|state| state.is_leader()).await;
        assert!(led.is_err(), "{} leads", latch.id());
    });
    let led = tokio::time::timeout(time, futures::future::join_all(watching)).await;
    assert!(led.is_err(), "the latches are alive");
}

/// An event of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    IsLeader(i64),
    NotLeader,
}

/// A listener that passes on what it hears; a leadership as its token.
pub(crate) struct Recorder(mpsc::UnboundedSender<Heard>);

pub(crate) fn recorder() -> (Recorder, mpsc::UnboundedReceiver<Heard>) {
    let (sender, heard) = mpsc::unbounded_channel();
    (Recorder(sender), heard)
}

impl LeaderLatchListener for Recorder {
    async fn is_leader(&self, leadership: Leadership) {
        let _ = self.0.send(Heard::IsLeader(leadership.fencing_token()));
    }

    async fn not_leader(&self) {
        let _ = self.0.send(Heard::NotLeader);
    }
}

/// The next thing that a listener hears.
pub(crate) async fn hears(heard: &mut mpsc::UnboundedReceiver<Heard>) -> Heard {
    let next = within("the listener hears something", SOON, heard.recv());
    next.await.expect("the listener is alive")
}

/// The history of a latch: the edges of "leads", as seen through its state.
pub(crate) struct Edges {
    task: JoinHandle<()>,
    edges: Arc<std::sync::Mutex<Vec<Edge>>>,
}

/// The latch began, or ceased, to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edge {
    Leads { token: i64, node: String },
    LeadsNot,
}

impl Edges {
    /// Follows the state from now on; who leads already has an edge at once.
    pub(crate) fn of(latch: &LeaderLatch) -> Edges {
        let mut states = latch.state();
        let edges: Arc<std::sync::Mutex<Vec<Edge>>> = Arc::default();
        let seen = Arc::clone(&edges);
        let task = tokio::spawn(async move {
            let mut led = false;
            loop {
                let leadership = states.get().leadership();
                if leadership.is_some() != led {
                    led = !led;
                    seen.lock().expect("no panic while locked").push(match leadership {
                        Some(leadership) => Edge::Leads {
                            token: leadership.fencing_token(),
                            node: leadership.fence().path().to_owned(),
                        },
                        None => Edge::LeadsNot,
                    });
                }
                if states.changed().await.is_err() {
                    return;
                }
            }
        });
        Edges { task, edges }
    }

    pub(crate) fn seen(&self) -> Vec<Edge> {
        self.edges.lock().expect("no panic while locked").clone()
    }
}

impl Drop for Edges {
    fn drop(&mut self) {
        self.task.abort();
    }
}
