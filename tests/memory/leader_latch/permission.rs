//! A directory in which nodes may be made but neither seen nor deleted.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::{Operation, TestingServer};

use super::fixture::{PATH, behind_two, reaches, reaches_within};
use crate::fixture::{SOON, within};

#[tokio::test(start_paused = true)]
async fn a_latch_that_may_neither_list_nor_delete_makes_no_further_node_and_comes_back_when_it_may() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let (latch, before) = behind_two(&server, &client).await;
    let ours = latch.our_path().expect("it has a node");
    server.deny(PATH);
    server.delete_by_hand(&before[1]).expect("it exists");
    reaches(&latch, LatchStatus::Failed).await;
    let error = latch.state().get().error().cloned().expect("it says why");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert!(error.to_string().contains(&ours), "{error}");
    let creates = server.count(&client, Operation::Create);
    let (mut states, mut failures) = (latch.state(), 0);
    let counting = async {
        while states.changed().await.is_ok() {
            failures += 1;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), counting).await.expect_err("the latch is open");
    assert!((3..=12).contains(&failures), "the delays grow: {failures} failures in two minutes");
    assert_eq!(server.count(&client, Operation::Create), creates, "no further node");
    assert_eq!(latch.state().get().status(), LatchStatus::Failed);

    server.allow(PATH);
    server.delete_by_hand(&before[0]).expect("it exists");
    // The delays between two attempts have grown.
    reaches_within(&latch, LatchStatus::Leading, Duration::from_secs(90)).await;
    assert_eq!(server.children(PATH).len(), 1);
}

/// As with a quota that was used up: by the time of the call an operator has made room.
#[tokio::test(start_paused = true)]
async fn a_call_after_a_failure_waits_for_the_next_attempt() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    client.create_containers(PATH).await.expect("created");
    server.deny(PATH);
    let latch = LeaderLatch::builder(&client, PATH).start().expect("a good path");
    reaches(&latch, LatchStatus::Failed).await;
    let error = within("the next attempt", SOON * 10, latch.wait_for_leadership()).await.expect_err("denied");
    assert_eq!(error.kind(), ErrorKind::NoAuth);
    server.allow(PATH);
    within("it leads", SOON * 10, latch.wait_for_leadership()).await.expect("it leads");
}
