//! The end of a state: a receiver yields the last state, and then no other.

use std::fmt::Debug;

use zookeeper_recipes::leader_latch::{LatchState, LatchStatus, LeaderLatch};
use zookeeper_recipes::leader_selector::{Leadership, RunningTerm, SelectorState, SelectorStatus};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::throughput_balancer::Share;
use zookeeper_recipes::{StateEnded, StateReceiver};

use crate::fixture::T;
use crate::leader_latch::fixture as latches;
use crate::leader_selector::fixture as selectors;
use crate::throughput_balancer::fixture as members;
use crate::waiting::within;

/// Asserts that the receivers, one from before the end and one from after it, both end with the last state. The first
/// has not seen it yet.
async fn ends<S: Clone + Debug>(mut before: StateReceiver<S>, mut after: StateReceiver<S>, is_last: fn(&S) -> bool) {
    let last = within("the last state", T, before.changed()).await.expect("not seen yet");
    assert!(is_last(&last), "{last:?}");
    assert_eq!(within("the end", T, before.changed()).await.expect_err("it ended"), StateEnded);
    assert_eq!(within("the end", T, after.changed()).await.expect_err("it ended"), StateEnded);
    assert!(is_last(&after.get()), "{after:?}");
    for receiver in [&mut before, &mut after] {
        within("the last state", T, receiver.wait_for(is_last)).await.expect("it is the last one");
        within("the end", T, receiver.wait_for(|state| !is_last(state))).await.expect_err("it ended");
    }
}

async fn leading_latch(server: &TestingServer) -> LeaderLatch {
    latches::make_directory(server);
    let client = server.client().await.expect("a client");
    let latch = latches::latch(&client, "one");
    latches::reaches(&latch, LatchStatus::Leading).await;
    latch
}

#[tokio::test(start_paused = true)]
async fn of_a_latch_that_is_closed() {
    let server = TestingServer::start();
    let latch = leading_latch(&server).await;
    let mut before = latch.state();
    before.mark_unchanged();
    latch.close().await.expect("closed");
    let after = latch.state();
    ends(before, after, |state: &LatchState| state.status() == LatchStatus::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn of_a_latch_that_is_dropped() {
    let server = TestingServer::start();
    let latch = leading_latch(&server).await;
    let mut before = latch.state();
    before.mark_unchanged();
    let mut after = before.clone();
    drop(latch);
    within("the latch ends", T, after.changed()).await.expect("not seen yet");
    assert!(before.has_changed(), "the last state has not been seen, and its sender is gone");
    ends(before, after, |state: &LatchState| state.status() == LatchStatus::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn of_a_selector_that_is_closed() {
    let (_server, client, _) = selectors::setup().await;
    let lead = |leadership: Leadership| async move { leadership.lost().await };
    let selector = selectors::builder(&client, "one").start(lead).expect("started");
    selectors::reaches(&selector, SelectorStatus::Leading).await;
    let mut before = selector.state();
    before.mark_unchanged();
    selector.close_with(RunningTerm::Interrupt).await.expect("closed");
    let after = selector.state();
    ends(before, after, |state: &SelectorState| state.status() == SelectorStatus::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn of_the_share_of_a_member_that_left() {
    let (server, clients) = members::setup(1).await;
    let member = members::joined(&clients[0]).await;
    members::have(&server, &[&member], &[1_000]).await;
    let mut before = member.share();
    before.mark_unchanged();
    let mut after = before.clone();
    member.leave().await;
    within("the member leaves", T, after.changed()).await.expect("not seen yet");
    ends(before, after, |share: &Share| share.throughput() == 0).await;
}
