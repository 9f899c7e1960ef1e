//! Requests to resign, and transfers.

use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{
    LatchStatus, LeaderLatch, Leadership, LeadershipLost, ResignError, ask_to_resign, pending_requests, transfer,
};

use super::{A_MOMENT, LINE, leads, line_has};
use crate::harness::{Run, cases};

cases! {
    pending: "pending::pending_requests", at least 200 drops, 160 faults;
    ask: "requests::ask_to_resign", at least 110 drops, 70 faults;
    ask_by_a_participant: "LeaderLatch::ask_to_resign", at least 120 drops, 70 faults;
    transfer_by_an_operator: "transfer::transfer", at least 2200 drops, 1700 faults;
    transfer_by_a_participant: "LeaderLatch::transfer_to", at least 2200 drops, 1700 faults;
    resign: "LeaderLatch::resign", at least 40 drops, 20 faults;
    on_revoke: "Leadership::on_revoke", at least 120 drops, 80 faults;
}

const REQUESTS: &str = "/line-requests";
const WITHIN: Duration = Duration::from_secs(60);

/// Returns a latch that can be asked to resign, and its node of requests.
async fn revocable(run: &Run, client: &Client, id: &str, grace: Duration) -> (LeaderLatch, String) {
    let latch = LeaderLatch::builder(client, LINE).id(id).revocable(grace).start().expect("the latch starts");
    let request = || latch.our_path().map(|node| node.replace(LINE, REQUESTS) + "-request");
    let accepts = || request().is_some_and(|request| run.server().stat(&request).is_some());
    run.in_the_end("it can be asked", accepts).await;
    let request = request().expect("it has a node");
    (latch, request)
}

/// Returns a leader that only resigns by itself.
async fn leader(run: &mut Run, client: &Client) -> (LeaderLatch, Leadership, String) {
    run.directory(LINE);
    run.may_stay(REQUESTS);
    let (latch, request) = revocable(run, client, "leader", Duration::MAX).await;
    let leadership = leads(&latch).await;
    (latch, leadership, request)
}

/// Checks what a request that was cut off has done, and that another one arrives.
async fn is_asked(
    run: &Run,
    client: &Client,
    done: Option<Result<bool, ResignError>>,
    (leader, leadership, request): (LeaderLatch, Leadership, String),
) {
    match (done, run.server().get(&request).as_deref()) {
        (Some(done), Some(b"resign")) => assert!(done.expect("it is repeated"), "its node is there"),
        (None, Some(b"resign")) => assert!(run.is_polled()),
        (None, Some(b"")) => {}
        (done, data) => panic!("{done:?}, and the node holds {data:?}"),
    }
    ask_to_resign(client, &leader.our_path().expect("it leads")).await.expect("as often as one likes");
    assert_eq!(leadership.on_revoke().await, Ok(()));
    assert!(leadership.is_held());
}

async fn pending(run: &mut Run) {
    let client = run.client().await;
    let other = run.other_client().await;
    let (latch, _, request) = leader(run, &other).await;
    // A client sees what it has written itself, also at a server that lags.
    client.set(&request, "resign", None).await.expect("written");
    let node = latch.our_path().expect("it leads");
    if let Some(pending) = run.cut(pending_requests(&client, LINE)).await.done() {
        assert_eq!(pending.expect("a read is repeated"), [node.as_str()]);
    }
    run.is_silent_if_calm().await;
    assert_eq!(pending_requests(&client, LINE).await.expect("another look"), [node]);
}

async fn ask(run: &mut Run) {
    let client = run.client().await;
    let other = run.other_client().await;
    let held = leader(run, &other).await;
    let node = held.0.our_path().expect("it leads");
    let done = run.cut(ask_to_resign(&client, &node)).await.done();
    run.is_silent_if_calm().await;
    is_asked(run, &client, done, held).await;
}

async fn ask_by_a_participant(run: &mut Run) {
    let client = run.client().await;
    let other = run.other_client().await;
    let held = leader(run, &other).await;
    let asker = super::latch(&client, "asker");
    line_has(run, 2).await;
    let participant = asker.leader().await.expect("read").expect("a leader");
    let done = run.cut(asker.ask_to_resign(&participant)).await.done();
    is_asked(run, &client, done, held).await;
}

/// Returns the line leader, between, target.
async fn three(run: &mut Run, client: &Client) -> Vec<LeaderLatch> {
    run.directory(LINE);
    run.may_stay(REQUESTS);
    let mut line = Vec::new();
    for id in ["leader", "between", "target"] {
        line.push(revocable(run, client, id, Duration::ZERO).await.0);
    }
    leads(&line[0]).await;
    line
}

/// Checks that there is one leader, the target if the call has said so, and that all are still in the line.
async fn one_leads(run: &Run, line: &[LeaderLatch], done: Option<Result<String, ResignError>>) {
    if let Some(leader) = done {
        assert_eq!(leader.expect("all are there"), "target");
        assert!(line[2].has_leadership());
    } else if !run.is_polled() {
        assert!(line[0].has_leadership());
    }
    line_has(run, line.len()).await;
    let settled =
        |latch: &LeaderLatch| matches!(latch.state().get().status(), LatchStatus::Waiting | LatchStatus::Leading);
    run.in_the_end("all are in the line", || line.iter().all(settled)).await;
    assert_eq!(line.iter().filter(|latch| latch.has_leadership()).count(), 1);
}

async fn transfer_by_an_operator(run: &mut Run) {
    let client = run.client().await;
    let other = run.other_client().await;
    let line = three(run, &other).await;
    let watches = run.settled_watches().await;
    let done = run.cut(transfer(&client, LINE, "target", WITHIN)).await.done();
    one_leads(run, &line, done.map(|leader| leader.map(|leader| leader.id))).await;
    if run.is_calm() {
        // Those that stepped back watch other nodes, but as many.
        run.in_the_end("no watch of the call is left", || run.server().watches() <= watches + 1).await;
        run.is_silent().await;
    }
}

async fn transfer_by_a_participant(run: &mut Run) {
    let client = run.client().await;
    let other = run.other_client().await;
    let mut line = three(run, &other).await;
    let asker = super::latch(&client, "asker");
    line_has(run, 4).await;
    let target = asker.participants().await.expect("read").swap_remove(2);
    let done = run.cut(asker.transfer_to(&target, WITHIN)).await.done();
    line.push(asker);
    one_leads(run, &line, done.map(|leader| leader.map(|leader| leader.id))).await;
}

/// Once it was polled, it resigns.
async fn resign(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let (latch, leadership) = super::leader_of(&client, "leader").await;
    if run.cut(latch.resign(&leadership)).await.done().is_some() {
        assert!(!leadership.is_held());
    }
    if run.is_polled() {
        leadership.lost().await;
    } else {
        latch.resign(&leadership).await;
    }
    assert_ne!(leads(&latch).await.fencing_token(), leadership.fencing_token());
    line_has(run, 1).await;
}

async fn on_revoke(run: &mut Run) {
    let client = run.client().await;
    let (latch, leadership, request) = leader(run, &client).await;
    // The node may be gone by then.
    run.later(&client, A_MOMENT * 8, move |server| drop(server.set_data_by_hand(&request, "resign")));
    let asked = run.cut(leadership.on_revoke()).await.done();
    for asked in asked.into_iter().chain([leadership.on_revoke().await]) {
        assert!(asked == Ok(()) || asked == Err(LeadershipLost) && !run.is_calm());
    }
    latch.resign(&leadership).await;
    assert!(!leadership.is_held());
    assert!(leads(&latch).await.is_held());
    line_has(run, 1).await;
}
