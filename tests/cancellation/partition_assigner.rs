//! PartitionAssigner: joining, leaving, working, waiting for changes.

use std::time::Duration;

use futures::StreamExt;
use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{
    Owned, PartitionAssigner, PartitionAssignerBuilder, drain, pin, rebalance, state, undrain, unpin,
};

use crate::harness::{Run, cases};

cases! {
    join: "PartitionAssignerBuilder::join", at least 100 drops, 50 faults;
    leave: "PartitionAssigner::leave", at least 50 drops, 20 faults;
    leave_for_restart: "PartitionAssigner::leave_for_restart", at least 50 drops, 20 faults;
    work: "PartitionAssigner::run", at least 20 drops, 5 faults;
    settled: "PartitionAssigner::settled", at least 5 drops, 2 faults;
    changes: "Changes::next", at least 5 drops, 2 faults;
    events: "Events::next", at least 5 drops, 2 faults;
    revoked: "Owned::revoked", at least 2 drops, 0 faults;
    lost: "Owned::lost", at least 2 drops, 0 faults;
    run_one: "Owned::run", at least 2 drops, 0 faults;
    state_of_all: "state::state", at least 20 drops, 5 faults;
    pin_one: "config::pin", at least 20 drops, 5 faults;
    unpin_one: "config::unpin", at least 20 drops, 5 faults;
    drain_one: "config::drain", at least 20 drops, 5 faults;
    undrain_one: "config::undrain", at least 20 drops, 5 faults;
    rebalance_all: "config::rebalance", at least 20 drops, 5 faults;
}

const BASE: &str = "/jobs";
const PARTITIONS: usize = 4;

/// Creates the directories, which may be left behind.
fn directories(run: &mut Run) {
    for path in ["", "/config", "/members", "/assignments", "/owned", "/epoch", "/leader"] {
        run.directory(&format!("{BASE}{path}"));
    }
    // The next leader deletes the record of a member whose session ended before it had left.
    run.may_stay(&format!("{BASE}/assignments/one"));
}

fn builder(client: &Client) -> PartitionAssignerBuilder {
    PartitionAssigner::builder(client, BASE)
        .partitions(0..PARTITIONS as u32)
        .id("one")
        .debounce(Duration::ZERO, Duration::ZERO)
        .grace_period(Duration::from_millis(50))
}

async fn member(client: &Client) -> PartitionAssigner {
    builder(client).join().await.expect("it joins")
}

/// Waits until only this many members are left, with their places in line and all that they hold.
async fn only(run: &Run, members: usize) {
    run.in_the_end("no other member is there", || {
        let count = |dir: &str| run.server().children(&format!("{BASE}/{dir}")).len();
        let owned = count("owned");
        ["members", "leader"].iter().all(|dir| count(dir) == members) && (members > 0 || owned == 0)
    })
    .await;
}

/// Waits until a member holds everything.
async fn has_all(run: &Run, member: &PartitionAssigner) {
    run.in_the_end("it holds all", || member.assigned().len() == PARTITIONS).await;
}

async fn join(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    drop(run.cut(builder(&client).join()).await.done().map(|joined| joined.expect("it joins")));
    only(run, 0).await;
    let member = member(&client).await;
    has_all(run, &member).await;
}

async fn leave(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let leaves = member(&client).await;
    has_all(run, &leaves).await;
    let left = run.cut(leaves.leave()).await.done().is_some();
    if left || run.is_polled() {
        only(run, 0).await;
    }
    drop(leaves);
    only(run, 0).await;
}

/// The record stays, so that the member gets the same again. Here it is deleted by the next leader.
async fn leave_for_restart(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let leaves = member(&client).await;
    has_all(run, &leaves).await;
    let left = run.cut(leaves.leave_for_restart()).await.done().is_some();
    if left || run.is_polled() {
        run.in_the_end("it is gone", || run.server().children(&format!("{BASE}/members")).is_empty()).await;
    }
    drop(leaves);
    let again = member(&client).await;
    has_all(run, &again).await;
    only(run, 1).await;
    again.leave().await;
}

/// Wherever it is dropped, no work is left, and another run works on everything.
async fn work(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    let working = std::sync::Arc::new(());
    let work = |working: &std::sync::Arc<()>| {
        let working = std::sync::Arc::clone(working);
        move |_| {
            let working = std::sync::Arc::clone(&working);
            async move {
                let _working = working;
                std::future::pending::<()>().await;
            }
        }
    };
    drop(run.cut(member.run(work(&working))).await);
    run.in_the_end("no work is left", || std::sync::Arc::strong_count(&working) == 1).await;
    has_all(run, &member).await;
    only(run, 1).await;
}

async fn settled(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    drop(run.cut(member.settled()).await);
    member.settled().await.expect("it is a member");
    assert_eq!(member.assigned().len(), PARTITIONS);
}

async fn changes(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    let mut changes = member.changes();
    drop(run.cut(changes.next()).await);
    has_all(run, &member).await;
}

async fn events(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    let mut events = member.events();
    drop(run.cut(events.next()).await);
    has_all(run, &member).await;
}

/// Returns a member that is leaving, and a partition that it hands over.
async fn leaving(run: &mut Run) -> (PartitionAssigner, Owned) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    has_all(run, &member).await;
    let partition = member.assigned()[0].clone();
    // Dropped half way: it goes on.
    let _leaving = tokio::time::timeout(Duration::from_millis(10), member.leave()).await;
    (member, partition)
}

async fn revoked(run: &mut Run) {
    let (_member, partition) = leaving(run).await;
    run.cut(partition.revoked()).await.done();
    only(run, 0).await;
}

async fn lost(run: &mut Run) {
    let (_member, partition) = leaving(run).await;
    run.cut(partition.lost()).await.done();
    only(run, 0).await;
}

async fn run_one(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    has_all(run, &member).await;
    let partition = member.assigned()[0].clone();
    run.cut(partition.run(tokio::time::sleep(Duration::from_millis(1)))).await.done();
    has_all(run, &member).await;
}

async fn state_of_all(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let member = member(&client).await;
    drop(run.cut(state(&client, BASE)).await);
    has_all(run, &member).await;
}

/// Whether what operators have set contains this.
fn is_set(run: &Run, text: &str) -> bool {
    let config = run.server().get(&format!("{BASE}/config")).unwrap_or_default();
    String::from_utf8_lossy(&config).contains(text)
}

/// A call that was polled is carried out, even if it is dropped.
async fn is_carried_out(run: &Run, done: bool, text: &str, is_wanted: bool) {
    if done || run.is_polled() {
        run.in_the_end("it is carried out", || is_set(run, text) == is_wanted).await;
    }
}

async fn pin_one(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let done = run.cut(pin(&client, BASE, "1", "one")).await.done().is_some_and(|done| done.is_ok());
    is_carried_out(run, done, r#""1":"one""#, true).await;
}

async fn unpin_one(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    pin(&client, BASE, "1", "one").await.expect("pinned");
    let done = run.cut(unpin(&client, BASE, "1")).await.done().is_some_and(|done| done.is_ok());
    is_carried_out(run, done, r#""1":"one""#, false).await;
}

async fn drain_one(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let done = run.cut(drain(&client, BASE, "one")).await.done().is_some_and(|done| done.is_ok());
    is_carried_out(run, done, r#""one""#, true).await;
}

async fn undrain_one(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    drain(&client, BASE, "one").await.expect("drained");
    let done = run.cut(undrain(&client, BASE, "one")).await.done().is_some_and(|done| done.is_ok());
    is_carried_out(run, done, r#""one""#, false).await;
}

async fn rebalance_all(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let done = run.cut(rebalance(&client, BASE)).await.done().is_some_and(|done| done.is_ok());
    is_carried_out(run, done, r#""rebalances":1"#, true).await;
}
