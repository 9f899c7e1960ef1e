//! What may not be done fails with a reason, and is done when it is permitted.

use std::time::Duration;

use zookeeper_recipes::persistent_node::{NodeMode, NodeState};
use zookeeper_recipes::testing::Operation;
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{DIR, FIXED, PATH, fails, is_there, node, node_of, present, setup};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn without_the_permission_to_create_it_fails_and_is_created_when_permitted() {
    for mode in [FIXED.as_slice(), &[NodeMode::EphemeralSequential]].concat() {
        let (server, [client]) = setup().await;
        server.deny(DIR);
        let node = node_of(&client, mode, "");
        let error = node.created().await.expect_err("not permitted");
        assert_eq!(error.kind(), ErrorKind::NoAuth, "{mode:?}: {error}");
        // The next call waits for the next attempt.
        let error = node.created().await.expect_err("not permitted");
        assert_eq!(error.kind(), ErrorKind::NoAuth, "{mode:?}: {error}");
        assert!(node.state().get().error().is_some(), "{mode:?}");
        assert!(server.children(DIR).is_empty(), "{mode:?}");
        server.allow(DIR);
        within("it is created", T, server.until(|| !server.children(DIR).is_empty())).await;
        present(&node).await;
        node.created().await.expect("created");
        node.close().await.expect("closed");
        assert!(server.children(DIR).is_empty(), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_attempts_become_rare() {
    let (server, [client]) = setup().await;
    server.deny(DIR);
    let _node = node(&client, "");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let creates = server.count(&client, Operation::Create);
    assert!((3..=12).contains(&creates), "{creates} attempts in two minutes");
}

#[tokio::test(start_paused = true)]
async fn data_that_may_not_be_written_is_written_when_permitted_and_the_node_is_kept_meanwhile() {
    let (server, [client]) = setup().await;
    let node = node(&client, "old");
    present(&node).await;
    server.deny(PATH);
    let error = node.set_data("new").await.expect_err("not permitted");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    fails(&node).await;
    server.allow(PATH);
    let written = || server.get(PATH).as_deref() == Some(&b"new"[..]);
    within("it is written", T * 3, server.until(written)).await;
    present(&node).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_parent_is_ephemeral_is_an_error() {
    let (server, [client, other]) = setup().await;
    other.create(PATH, "", CreateMode::Ephemeral).await.expect("created");
    let below = zookeeper_recipes::persistent_node::PersistentNode::builder(&client, format!("{PATH}/below"));
    let below = below.start().expect("it starts");
    let error = below.created().await.expect_err("no place for it");
    assert_eq!(error.kind(), ErrorKind::NoChildrenForEphemerals, "{error}");
    // It heals when the cause goes: the parent becomes a container.
    other.delete(PATH, None).await.expect("deleted");
    within("it is created", T, server.until(|| server.stat(&format!("{PATH}/below")).is_some())).await;
    below.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_node_with_children_of_others_stays_and_the_close_says_so() {
    let (server, [client]) = setup().await;
    let lasting = node_of(&client, NodeMode::Persistent, "");
    present(&lasting).await;
    server.create_by_hand(&format!("{PATH}/child"), "", CreateMode::Persistent).expect("a new node");
    let error = lasting.close().await.expect_err("it has children");
    assert_eq!(error.kind(), ErrorKind::NotEmpty, "{error}");
    // It is not deleted later either.
    server.delete_by_hand(&format!("{PATH}/child")).expect("it was there");
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(server.stat(PATH).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_close_that_is_not_permitted_fails_and_the_node_is_deleted_when_it_is() {
    let (server, [client]) = setup().await;
    let node = node(&client, "");
    present(&node).await;
    server.deny(DIR);
    let error = node.close().await.expect_err("not permitted");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    is_there(&server, &client, PATH, "");
    server.allow(DIR);
    within("it is deleted", T * 4, server.until(|| server.stat(PATH).is_none())).await;
}

#[tokio::test(start_paused = true)]
async fn newer_data_does_not_wait_for_what_was_refused() {
    let (server, [client]) = setup().await;
    let node = node(&client, "old");
    present(&node).await;
    server.deny(PATH);
    for _ in 0..3 {
        node.set_data("refused").await.expect_err("not permitted");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    server.allow(PATH);
    within("it is written", SOON, node.set_data("newer")).await.expect("permitted");
    is_there(&server, &client, PATH, "newer");
    present(&node).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_is_told_of_its_own_data_not_of_data_that_was_set_before() {
    let (server, [client]) = setup().await;
    let node = node(&client, "old");
    present(&node).await;
    let slow = Duration::from_millis(200);
    server.delay(&client, slow);
    server.deny(PATH);
    let (refused, written) = futures::join!(node.set_data("refused"), async {
        // The first one's write has arrived, and its answer is under way.
        tokio::time::sleep(slow * 3 / 2).await;
        server.allow(PATH);
        node.set_data("newer").await
    });
    assert_eq!(refused.expect_err("not permitted").kind(), ErrorKind::NoAuth);
    written.expect("permitted");
    is_there(&server, &client, PATH, "newer");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_long_after_another_is_tried_again_soon() {
    let (server, [client]) = setup().await;
    let node = node(&client, "old");
    present(&node).await;
    for round in 0..4 {
        let data = format!("round {round}");
        server.deny(PATH);
        node.set_data(data.as_str()).await.expect_err("not permitted");
        server.allow(PATH);
        let written = || server.get(PATH).as_deref() == Some(data.as_bytes());
        within("it is written after the first delays", Duration::from_secs(3), server.until(written)).await;
        present(&node).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_there_is_adopted_without_the_permission_to_create_one() {
    let (server, [client]) = setup().await;
    server.create_by_hand(PATH, "theirs", CreateMode::Persistent).expect("a new node");
    server.deny(DIR);
    let node = node_of(&client, NodeMode::Persistent, "ours");
    within("it is adopted", SOON, node.created()).await.expect("it is there");
    let written = || server.get(PATH).as_deref() == Some(&b"ours"[..]);
    within("it has our data", SOON, server.until(written)).await;
    present(&node).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_client_ends_the_pause_after_a_failure() {
    let (server, [client]) = setup().await;
    server.deny(DIR);
    let node = node(&client, "");
    tokio::time::sleep(Duration::from_secs(120)).await;
    fails(&node).await;
    client.close().await.expect("closed");
    let closed = async { node.state().wait_for(|state| *state == NodeState::Closed).await };
    within("it ends", SOON, closed).await.expect("closed");
}
