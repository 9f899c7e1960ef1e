//! What a node costs.

use zookeeper_recipes::persistent_node::{NodeMode, PersistentNode};
use zookeeper_recipes::testing::{Operation, TestingServer};

use super::fixture::{FIXED, PATH, node, node_of, present, settle, setup, waits};
use crate::fixture::{SOON, T, requests};

const CREATED: [Operation; 2] = [Operation::Create, Operation::GetData];

#[tokio::test(start_paused = true)]
async fn a_creation_costs_one_create_and_one_watch_and_a_steady_node_nothing() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        server.clear_records();
        let _node = node_of(&client, mode, "data");
        tokio::time::sleep(SOON).await;
        let counts = client.request_counts();
        assert_eq!((counts.creates, counts.watches, counts.total()), (1, 1, 2), "{mode:?}: {counts}");
        assert_eq!(requests(&server), CREATED, "{mode:?}");
        tokio::time::sleep(T * 3).await;
        assert_eq!(client.request_counts(), counts, "{mode:?}: no heartbeats either");
    }
}

#[tokio::test(start_paused = true)]
async fn create_and_watch_travel_together() {
    let latency = std::time::Duration::from_millis(5);
    let server = TestingServer::builder().latency(latency..=latency).start();
    let client = server.client().await.expect("a client");
    client.create_containers("/services/api").await.expect("created");
    let begun = tokio::time::Instant::now();
    let node = node(&client, "data");
    node.created().await.expect("created");
    assert!(begun.elapsed() <= latency * 2 + std::time::Duration::from_millis(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_costs_one_create_and_one_watch() {
    let (server, [client]) = setup().await;
    let node = node(&client, "data");
    present(&node).await;
    server.clear_records();
    server.delete_by_hand(PATH).expect("it was there");
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), CREATED);
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_costs_one_read_and_a_new_session_one_create_and_one_watch() {
    let (server, [client]) = setup().await;
    let node = node(&client, "data");
    present(&node).await;
    let before = client.request_counts();
    server.disconnect(&client);
    settle().await;
    let counts = client.request_counts() - before;
    assert_eq!((counts.watches, counts.total()), (1, 1), "{counts}");

    let before = client.request_counts();
    server.expire_session(&client);
    settle().await;
    present(&node).await;
    let counts = client.request_counts() - before;
    assert_eq!((counts.creates, counts.watches), (1, 1), "{counts}");
}

#[tokio::test(start_paused = true)]
async fn new_data_costs_one_write_and_one_watch() {
    let (server, [client]) = setup().await;
    let node = node(&client, "data");
    present(&node).await;
    let before = client.request_counts();
    node.set_data("new").await.expect("written");
    tokio::time::sleep(SOON).await;
    let counts = client.request_counts() - before;
    assert_eq!((counts.writes, counts.watches, counts.total()), (1, 1, 2), "{counts}");
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_costs_nothing_and_its_turn_one_create_and_one_watch() {
    let (_server, [client, other]) = setup().await;
    let winner = node(&other, "winner");
    present(&winner).await;
    let loser = node(&client, "loser");
    waits(&loser).await;
    let before = client.request_counts();
    tokio::time::sleep(T * 3).await;
    assert_eq!(client.request_counts(), before);
    winner.close().await.expect("closed");
    present(&loser).await;
    let counts = client.request_counts() - before;
    assert_eq!((counts.creates, counts.watches, counts.total()), (1, 1, 2), "{counts}");
}

#[tokio::test(start_paused = true)]
async fn a_close_costs_a_sync_a_read_and_a_delete_and_of_a_protected_node_the_delete_alone() {
    for (protected, total) in [(false, 3), (true, 1)] {
        let (server, [client]) = setup().await;
        let builder = PersistentNode::builder(&client, PATH).mode(NodeMode::Ephemeral).protected(protected);
        let node = builder.start().expect("it starts");
        present(&node).await;
        let before = client.request_counts();
        node.close().await.expect("closed");
        tokio::time::sleep(SOON).await;
        let counts = client.request_counts() - before;
        assert_eq!((counts.deletes, counts.total()), (1, total), "{protected}: {counts}");
        assert_eq!(server.watches(), 0);
    }
}
