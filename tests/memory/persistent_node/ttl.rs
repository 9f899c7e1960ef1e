//! Nodes with a time to live.

use std::time::Duration;

use zookeeper_recipes::persistent_node::{Error, NodeMode, NodeState, PersistentNode};
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{DIR, PATH, fails, node_of, present, reaches, setup};
use crate::fixture::{SOON, T, within};

const TTL: Duration = Duration::from_secs(60);
const TOUCH: &str = "/services/api/a/touch";

fn start(client: &Client, data: &str) -> PersistentNode {
    node_of(client, NodeMode::Ttl(TTL), data)
}

#[tokio::test(start_paused = true)]
async fn it_is_kept_for_longer_than_its_time_without_a_change_and_goes_with_its_child() {
    let (server, [client]) = setup().await;
    let node = start(&client, "data");
    present(&node).await;
    let stat = server.stat(PATH).expect("it is there");
    assert_eq!(stat.ephemeral_owner, 0);
    tokio::time::sleep(TTL * 20).await;
    let now = server.stat(PATH).expect("it is there");
    assert_eq!((now.czxid, now.mzxid), (stat.czxid, stat.mzxid));
    assert_eq!(server.children(PATH), ["touch"]);
    within("it is closed", SOON, node.close()).await.expect("closed");
    assert!(server.children(DIR).is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_outlasts_its_process_by_its_time_and_no_longer() {
    let (server, [client]) = setup().await;
    let node = start(&client, "data");
    present(&node).await;
    server.freeze_client(&client);
    tokio::time::sleep(T * 2).await;
    assert!(server.sessions().is_empty() && server.stat(PATH).is_some(), "it does not end with the session");
    // The child, then the node, each found by one of the looks that the servers take in a minute.
    within("it ends", TTL * 6, server.until(|| server.stat(PATH).is_none())).await;
    server.thaw_client(&client);
    within("it is back", T, server.until(|| server.stat(PATH).is_some())).await;
    present(&node).await;
    assert_eq!(server.get(PATH).as_deref(), Some(&b"data"[..]));
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_the_session_changes_nothing() {
    let (server, [client]) = setup().await;
    let node = start(&client, "data");
    present(&node).await;
    let stat = server.stat(PATH);
    for _ in 0..5 {
        server.expire_session(&client);
        tokio::time::sleep(TTL).await;
        present(&node).await;
    }
    let now = server.stat(PATH);
    assert_eq!(now.map(|stat| (stat.czxid, stat.mzxid)), stat.map(|stat| (stat.czxid, stat.mzxid)));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_deleted_by_hand_is_created_again() {
    let (server, [client]) = setup().await;
    let node = start(&client, "data");
    present(&node).await;
    server.until(|| server.stat(TOUCH).is_some()).await;
    server.delete_by_hand(TOUCH).expect("it was there");
    within("it is there again", TTL, server.until(|| server.stat(TOUCH).is_some())).await;
    // And so is the node, with it.
    server.delete_by_hand(TOUCH).expect("it was there");
    server.delete_by_hand(PATH).expect("it was there");
    within("both are there again", SOON, server.until(|| server.stat(TOUCH).is_some())).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_of_a_process_before_is_adopted_and_touched_at_once() {
    let (server, [client]) = setup().await;
    server.create_by_hand(PATH, "old", CreateMode::PersistentTtl(TTL)).expect("a new node");
    server.create_by_hand(TOUCH, "", CreateMode::PersistentTtl(TTL)).expect("a new node");
    tokio::time::sleep(TTL / 2).await;
    let _node = start(&client, "new");
    server.until(|| server.get(PATH).as_deref() == Some(&b"new"[..])).await;
    within("it is touched", SOON, server.until(|| server.stat(TOUCH).is_some_and(|stat| stat.version > 0))).await;
    let czxid = server.stat(TOUCH).expect("it is there").czxid;
    tokio::time::sleep(TTL * 10).await;
    assert_eq!(server.stat(TOUCH).map(|stat| stat.czxid), Some(czxid));
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_of_our_own_session_is_adopted_without_a_child() {
    let (server, [client]) = setup().await;
    client.create(PATH, "by hand", CreateMode::Ephemeral).await.expect("created");
    let node = start(&client, "ours");
    reaches(&node, "of another kind", |state| *state == NodeState::OtherKind).await;
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(node.state().get(), NodeState::OtherKind);
    // In the next session it is what it should be.
    server.expire_session(&client);
    within("it is touched", T * 2, server.until(|| server.stat(TOUCH).is_some())).await;
    present(&node).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_touch_is_tried_again_within_the_time_to_live_however_long_it_was_refused() {
    let (server, [client]) = setup().await;
    let ttl = Duration::from_secs(4);
    let node = node_of(&client, NodeMode::Ttl(ttl), "data");
    present(&node).await;
    server.until(|| server.stat(TOUCH).is_some()).await;
    server.deny(TOUCH);
    tokio::time::sleep(Duration::from_secs(300)).await;
    server.allow(TOUCH);
    let touched = server.stat(TOUCH).map(|stat| stat.mzxid);
    within("it is touched", ttl, server.until(|| server.stat(TOUCH).map(|stat| stat.mzxid) != touched)).await;
    present(&node).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_may_not_be_written_is_a_failure_and_heals() {
    let (server, [client]) = setup().await;
    let node = start(&client, "data");
    present(&node).await;
    server.until(|| server.stat(TOUCH).is_some()).await;
    server.deny(TOUCH);
    let failing = async {
        let mut states = node.state();
        states.wait_for(|state| state.error().is_some()).await.map(drop)
    };
    within("it fails", TTL, failing).await.expect("it is open");
    fails(&node).await;
    server.allow(TOUCH);
    within("it heals", TTL, present(&node)).await;
}

#[tokio::test(start_paused = true)]
async fn a_steady_node_costs_two_writes_in_its_time() {
    let (server, [client]) = setup().await;
    let node = start(&client, "data");
    present(&node).await;
    tokio::time::sleep(SOON).await;
    let before = client.request_counts();
    assert_eq!((before.creates, before.watches, before.total()), (2, 1, 3), "{before}");
    tokio::time::sleep(TTL * 10).await;
    let counts = client.request_counts() - before;
    assert_eq!((counts.writes, counts.total()), (20, 20), "{counts}");
    assert_eq!(server.count(&client, Operation::SetData), 20);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_of_range_is_refused_at_the_start() {
    let (_server, [client]) = setup().await;
    for ttl in [Duration::ZERO, Duration::from_micros(999), CreateMode::MAX_TTL + Duration::from_millis(1)] {
        let error = PersistentNode::builder(&client, PATH).mode(NodeMode::Ttl(ttl)).start().expect_err("out of range");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert!(error.to_string().contains("1099511627775"), "{error}");
    }
    drop(PersistentNode::builder(&client, PATH).mode(NodeMode::Ttl(CreateMode::MAX_TTL)).start().expect("in range"));
}

#[tokio::test(start_paused = true)]
async fn servers_without_the_option_are_told_of() {
    let server = TestingServer::builder().extended_types(false).start();
    let client = server.client().await.expect("a client");
    let node = start(&client, "data");
    let error = node.created().await.expect_err("not permitted");
    assert_eq!(error.kind(), ErrorKind::Unimplemented, "{error}");
    assert!(error.to_string().contains("zookeeper.extendedTypesEnabled"), "{error}");
    within("it is closed", SOON, node.close()).await.expect("nothing is there");
}
