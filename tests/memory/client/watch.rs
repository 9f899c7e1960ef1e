//! What a watch reports, and when it says to read again.

use futures::{FutureExt, StreamExt};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode, Error, ErrorKind, RequestCounts, WatchEvent, WatchEvents, WatchMode};

use crate::fixture::{SOON, within};

async fn next(events: &mut WatchEvents) -> Option<Result<WatchEvent, Error>> {
    within("an event", SOON, events.next()).await
}

async fn event(events: &mut WatchEvents) -> WatchEvent {
    next(events).await.expect("it goes on").expect("no error")
}

fn created(path: &str) -> WatchEvent {
    WatchEvent::Created { path: path.to_owned() }
}

fn changed(path: &str) -> WatchEvent {
    WatchEvent::DataChanged { path: path.to_owned() }
}

fn total(counts: RequestCounts) -> (u64, u64) {
    (counts.total(), counts.watches)
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_a_node_and_to_its_children_costs_no_request() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let mut events = client.watch("/node", WatchMode::Persistent).expect("a good path");
    let before = client.request_counts();
    assert_eq!(event(&mut events).await, WatchEvent::ReadAgain);
    server.create_by_hand("/node", "", CreateMode::Persistent).expect("created");
    assert_eq!(event(&mut events).await, created("/node"));
    client.set("/node", "own", None).await.expect("set");
    assert_eq!(event(&mut events).await, changed("/node"));
    server.create_by_hand("/node/child", "", CreateMode::Persistent).expect("created");
    assert_eq!(event(&mut events).await, WatchEvent::ChildrenChanged { path: "/node".to_owned() });
    server.set_data_by_hand("/node/child", "not reported").expect("set");
    server.delete_by_hand("/node/child").expect("deleted");
    assert_eq!(event(&mut events).await, WatchEvent::ChildrenChanged { path: "/node".to_owned() });
    server.delete_by_hand("/node").expect("deleted");
    let deleted = event(&mut events).await;
    assert_eq!((deleted.path(), &deleted), (Some("/node"), &WatchEvent::Deleted { path: "/node".to_owned() }));
    assert_eq!(total(client.request_counts() - before), (3, 1), "a sync, a watch, and the set");
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_reported_without_the_namespace() {
    let server = TestingServer::start();
    server.create_by_hand("/app", "", CreateMode::Persistent).expect("created");
    let client = Client::builder_for_testing(&server).namespace("app").connect().await.expect("a client");
    let mut events = client.watch("/", WatchMode::PersistentRecursive).expect("a good path");
    assert_eq!(event(&mut events).await, WatchEvent::ReadAgain);
    server.create_by_hand("/app/a", "", CreateMode::Persistent).expect("created");
    server.create_by_hand("/app/a/b", "", CreateMode::Persistent).expect("created");
    server.create_by_hand("/other", "", CreateMode::Persistent).expect("created");
    server.set_data_by_hand("/app", "").expect("set");
    for expected in [created("/a"), created("/a/b"), changed("/")] {
        assert_eq!(event(&mut events).await, expected);
    }
    assert_eq!(events.next().now_or_never(), None);
}

#[tokio::test(start_paused = true)]
async fn everything_is_to_be_read_again_after_a_reconnect_and_in_a_new_session() {
    let server = TestingServer::start();
    server.create_by_hand("/node", "", CreateMode::Persistent).expect("created");
    let client = server.client().await.expect("a client");
    let mut events = client.watch("/node", WatchMode::Persistent).expect("a good path");
    assert_eq!(event(&mut events).await, WatchEvent::ReadAgain);
    let session = client.session_id();

    let before = client.request_counts();
    server.refuse(&client);
    server.disconnect(&client);
    server.set_data_by_hand("/node", "missed").expect("set");
    server.heal();
    assert_eq!(event(&mut events).await, WatchEvent::ReadAgain);
    assert_eq!(client.session_id(), session);
    assert_eq!(total(client.request_counts() - before), (1, 0), "a sync");
    server.set_data_by_hand("/node", "").expect("set");
    assert_eq!(event(&mut events).await, changed("/node"));

    let before = client.request_counts();
    server.expire_session(&client);
    assert_eq!(event(&mut events).await, WatchEvent::ReadAgain);
    assert_ne!(client.session_id(), session);
    assert_eq!(total(client.request_counts() - before), (2, 1), "a sync and a watch");
    server.set_data_by_hand("/node", "").expect("set");
    assert_eq!(event(&mut events).await, changed("/node"));
    drop(events);
    within("the watch is removed", SOON, server.until(|| server.watches() == 0)).await;
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_the_client_and_at_an_old_server() {
    let old = TestingServer::builder().persistent_watches(false).start();
    let client = old.client().await.expect("a client");
    let mut events = client.watch("/node", WatchMode::Persistent).expect("a good path");
    let refused = next(&mut events).await.expect("an item").expect_err("it does not know this");
    assert_eq!(refused.kind(), ErrorKind::Unimplemented);
    assert_eq!(next(&mut events).await, None);

    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    assert_eq!(client.watch("node", WatchMode::Persistent).expect_err("no path").kind(), ErrorKind::InvalidPath);
    let mut events = client.watch("/node", WatchMode::Persistent).expect("a good path");
    let mut never_read = client.watch("/node", WatchMode::Persistent).expect("a good path");
    assert_eq!(event(&mut events).await, WatchEvent::ReadAgain);
    client.close().await.expect("closed");
    assert_eq!(next(&mut events).await, None);
    assert_eq!(next(&mut events).await, None);
    assert_eq!(next(&mut never_read).await, None);
    assert_eq!(client.watch("/node", WatchMode::Persistent).expect_err("closed").kind(), ErrorKind::Closed);
}
