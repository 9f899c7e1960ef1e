//! What a node costs.

use zookeeper_recipes::persistent_node::{NodeMode, PersistentNode};
use zookeeper_recipes::testing::{Operation, TestingServer};

use super::fixture::{FIXED, PATH, look_of, node, node_of, present, settle, setup, waits};
use crate::fixture::{SOON, T, requests};

#[tokio::test(start_paused = true)]
async fn a_creation_costs_one_create_and_one_watch_and_a_steady_node_nothing() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        server.clear_records();
        let _node = node_of(&client, mode, "data");
        tokio::time::sleep(SOON).await;
        let counts = client.request_counts();
        assert_eq!((counts.creates, counts.watches, counts.total()), (1, 1, 2), "{mode:?}: {counts}");
        assert_eq!(requests(&server), [Operation::Create, look_of(mode)], "{mode:?}");
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
    assert_eq!(requests(&server), [Operation::Create, look_of(NodeMode::Ephemeral)]);
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
async fn new_data_costs_one_write_and_of_a_lasting_node_one_watch() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "data");
        present(&node).await;
        let before = client.request_counts();
        for number in 0..10 {
            node.set_data(number.to_string()).await.expect("written");
        }
        tokio::time::sleep(SOON).await;
        let (counts, watches) = (client.request_counts() - before, if mode == NodeMode::Ephemeral { 0 } else { 10 });
        assert_eq!((counts.writes, counts.watches, counts.total()), (10, watches, 10 + watches), "{mode:?}: {counts}");
        // The watch is still there.
        server.clear_records();
        server.delete_by_hand(PATH).expect("it was there");
        tokio::time::sleep(SOON).await;
        assert_eq!(requests(&server), [Operation::Create, look_of(mode)], "{mode:?}");
        assert_eq!(server.get(PATH).as_deref(), Some(b"9".as_slice()), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn new_data_after_a_write_by_another_costs_a_look_a_read_and_a_second_write() {
    let (server, [client]) = setup().await;
    let node = node(&client, "data");
    present(&node).await;
    server.set_data_by_hand(PATH, "theirs").expect("it is there");
    tokio::time::sleep(SOON).await;
    server.clear_records();
    node.set_data("new").await.expect("written");
    assert_eq!(
        requests(&server),
        [Operation::SetData, look_of(NodeMode::Ephemeral), Operation::GetData, Operation::SetData]
    );
    assert_eq!(server.get(PATH).as_deref(), Some(b"new".as_slice()));
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
