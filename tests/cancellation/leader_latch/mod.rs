//! LeaderLatch: waiting, reading participants, closing.

pub(crate) mod leader_stream;
pub(crate) mod leadership;
pub(crate) mod requests;
pub(crate) mod states;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{CloseMode, LatchStatus, LeaderLatch, LeaderLatchListener, Leadership};

use crate::harness::{Run, cases};

cases! {
    wait: "LeaderLatch::wait_for_leadership", at least 140 drops, 100 faults;
    wait_without_a_directory: "LeaderLatch::wait_for_leadership", at least 290 drops, 170 faults;
    wait_with_its_latch: "LeaderLatch::wait_for_leadership", at least 140 drops, 90 faults;
    wait_with_its_latch_behind_a_leader: "LeaderLatch::wait_for_leadership", at least 200 drops, 140 faults;
    wait_with_its_latch_for_a_leader_to_go: "LeaderLatch::wait_for_leadership", at least 110 drops, 70 faults;
    leader: "LeaderLatch::leader", at least 150 drops, 110 faults;
    participants: "LeaderLatch::participants", at least 260 drops, 200 faults;
    close: "LeaderLatch::close", at least 90 drops, 60 faults;
    close_of_a_waiter: "LeaderLatch::close", at least 80 drops, 50 faults;
    close_and_notify: "LeaderLatch::close_with", at least 90 drops, 60 faults;
}

const LINE: &str = "/line";
/// About how long an election takes.
const A_MOMENT: Duration = Duration::from_millis(5);

fn latch(client: &Client, id: &str) -> LeaderLatch {
    LeaderLatch::builder(client, LINE).id(id).start().expect("the latch starts")
}

async fn leads(latch: &LeaderLatch) -> Leadership {
    latch.wait_for_leadership().await.expect("it leads in the end")
}

/// Returns a latch that is first in line, and has sent what a leader sends.
async fn leader_of(client: &Client, id: &str) -> (LeaderLatch, Leadership) {
    let before = client.request_counts().watches;
    let latch = latch(client, id);
    let leadership = leads(&latch).await;
    // A leader watches its node only after its waiters have run.
    while client.request_counts().watches == before {
        sleep(Duration::from_millis(1)).await;
    }
    (latch, leadership)
}

/// Returns a latch that waits behind others.
async fn waiter_of(client: &Client, id: &str) -> LeaderLatch {
    let latch = latch(client, id);
    let mut states = latch.state();
    drop(states.wait_for(|state| state.status() == LatchStatus::Waiting).await.expect("the latch is alive"));
    latch
}

/// Waits until this many nodes are left in the election.
async fn line_has(run: &Run, nodes: usize) {
    run.in_the_end("no other participant is left", || run.server().children(LINE).len() == nodes).await;
}

/// The latch keeps its place in line: it still comes to lead, with one node.
async fn wait(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let latch = latch(&client, "it");
    if let Some(leadership) = run.cut(latch.wait_for_leadership()).await.done() {
        leadership.expect("it leads");
    }
    assert!(leads(&latch).await.is_held());
    line_has(run, 1).await;
}

async fn wait_without_a_directory(run: &mut Run) {
    run.may_stay("/deep");
    run.may_stay("/deep/line");
    let client = run.client().await;
    let latch = LeaderLatch::builder(&client, "/deep/line").start().expect("the latch starts");
    let wait = async move { latch.wait_for_leadership().await.map(drop) };
    if let Some(leadership) = run.cut(wait).await.done() {
        leadership.expect("it leads");
    }
}

/// The latch is dropped with the future that waits.
async fn wait_with_its_latch(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let dropped = latch(&client, "dropped");
    let wait = async move { dropped.wait_for_leadership().await.map(drop) };
    if let Some(leadership) = run.cut(wait).await.done() {
        leadership.expect("it leads");
    }
    line_has(run, 0).await;
    leads(&latch(&client, "next")).await;
}

/// The latch is dropped while another one leads, which keeps leading.
async fn wait_with_its_latch_behind_a_leader(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let other = run.other_client().await;
    let (_first, leadership) = leader_of(&other, "first").await;
    let _second = waiter_of(&other, "second").await;
    let watches = run.settled_watches().await;
    let dropped = latch(&client, "dropped");
    let wait = async move { timeout(Duration::from_millis(500), dropped.wait_for_leadership()).await.map(drop) };
    if let Some(waited) = run.cut(wait).await.done() {
        waited.expect_err("another leads");
    }
    line_has(run, 2).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(leadership.is_held());
}

/// The latch is dropped as it comes to lead, so that it must pass the leadership on.
async fn wait_with_its_latch_for_a_leader_to_go(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let other = run.other_client().await;
    let (leader, _) = leader_of(&other, "leader").await;
    let dropped = waiter_of(&client, "dropped").await;
    let next = waiter_of(&other, "next").await;
    run.later(&other, A_MOMENT, move |_| drop(leader));
    let wait = async move { dropped.wait_for_leadership().await.map(drop) };
    if let Some(leadership) = run.cut(wait).await.done() {
        leadership.expect("it leads");
    }
    assert!(leads(&next).await.is_held());
    line_has(run, 1).await;
}

async fn leader(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let (latch, _) = leader_of(&client, "it").await;
    if let Some(leader) = run.cut(latch.leader()).await.done() {
        // There is no leader if its session has expired.
        let leader = leader.expect("a read is repeated").map(|leader| leader.id);
        assert!(leader.is_none_or(|leader| leader == "it"));
    }
    leads(&latch).await;
    assert_eq!(latch.leader().await.expect("another look").map(|leader| leader.id).as_deref(), Some("it"));
}

async fn participants(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let other = run.other_client().await;
    let (_first, _) = leader_of(&other, "first").await;
    let _second = waiter_of(&other, "second").await;
    let watcher = waiter_of(&client, "it").await;
    drop(run.cut(watcher.participants()).await.done().map(|all| all.expect("a read is repeated")));
    let ids = |all: Vec<zookeeper_recipes::leader_latch::Participant>| -> Vec<String> {
        all.into_iter().map(|participant| participant.id).collect()
    };
    line_has(run, 3).await;
    assert_eq!(ids(watcher.participants().await.expect("another look")), ["first", "second", "it"]);
}

/// Once polled, the close is carried out in the background; if never polled, it is not.
async fn close(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let (latch, _) = leader_of(&client, "it").await;
    if let Some(closed) = run.cut(latch.close()).await.done() {
        closed.expect("the node is deleted");
        line_has(run, 0).await;
    }
    if !run.is_polled() {
        assert!(leads(&latch).await.is_held());
        latch.close().await.expect("closed");
    }
    // The latch itself stays open.
    line_has(run, 0).await;
    run.in_the_end("it is closed", || latch.state().get().status() == LatchStatus::Closed).await;
    latch.close().await.expect("closing twice is fine");
}

async fn close_of_a_waiter(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let other = run.other_client().await;
    let (_leader, leadership) = leader_of(&other, "leader").await;
    let watches = run.settled_watches().await;
    let waiter = waiter_of(&client, "waiter").await;
    if let Some(closed) = run.cut(waiter.close()).await.done() {
        closed.expect("the node is deleted");
    }
    if run.is_polled() {
        line_has(run, 1).await;
        run.only_watches_of_others_are_left(watches).await;
        run.in_the_end("it is closed", || waiter.state().get().status() == LatchStatus::Closed).await;
    }
    assert!(leadership.is_held());
}

/// Counts the notifications.
#[derive(Default)]
struct Heard {
    gained: AtomicUsize,
    lost: AtomicUsize,
}

struct Listener(Arc<Heard>);

impl LeaderLatchListener for Listener {
    async fn is_leader(&self, _: Leadership) {
        self.0.gained.fetch_add(1, Ordering::SeqCst);
    }

    async fn not_leader(&self) {
        sleep(A_MOMENT).await;
        self.0.lost.fetch_add(1, Ordering::SeqCst);
    }
}

/// Listeners are notified of the end of the leadership once.
async fn close_and_notify(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let latch = latch(&client, "it");
    let heard = Arc::new(Heard::default());
    latch.add_listener(Listener(Arc::clone(&heard)));
    leads(&latch).await;
    run.in_the_end("it has heard", || heard.gained.load(Ordering::SeqCst) == 1).await;
    if let Some(closed) = run.cut(latch.close_with(CloseMode::NotifyLeader)).await.done() {
        closed.expect("the node is deleted");
    }
    if run.is_polled() {
        line_has(run, 0).await;
        let (gained, lost) = (heard.gained.load(Ordering::SeqCst), heard.lost.load(Ordering::SeqCst));
        assert!(gained == lost && (gained == 1 || !run.is_calm()), "gained {gained}, lost {lost}");
    } else {
        assert!(leads(&latch).await.is_held());
    }
}
