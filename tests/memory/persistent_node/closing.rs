//! The close, at any moment.

use std::time::Duration;

use zookeeper_recipes::persistent_node::NodeMode;
use zookeeper_recipes::testing::{Operation, Record, RecordKind, TestingServer};
use zookeeper_recipes::{CreateMode, ErrorPolicy};

use super::fixture::{DIR, FIXED, PATH, node, node_of, present, settle, setup};
use crate::fixture::{T, client_with, within};

const ALL: [&[NodeMode]; 2] = [&FIXED, &[NodeMode::EphemeralSequential, NodeMode::Ttl(Duration::from_secs(30))]];

#[tokio::test(start_paused = true)]
async fn a_close_at_any_moment_of_the_creation_leaves_nothing() {
    for mode in ALL.concat() {
        for after in 0..60 {
            for closes in [true, false] {
                let server =
                    TestingServer::builder().latency(Duration::from_millis(5)..=Duration::from_millis(5)).start();
                let client = server.client().await.expect("a client");
                let node = node_of(&client, mode, "data");
                tokio::time::sleep(Duration::from_millis(after)).await;
                if closes {
                    within("it is closed", T, node.close()).await.expect("closed");
                    assert!(server.children(DIR).is_empty(), "{mode:?} after {after} ms");
                } else {
                    drop(node);
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
                assert!(server.children(DIR).is_empty(), "{mode:?} after {after} ms, close: {closes}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_at_any_moment_of_a_write_leaves_nothing() {
    for mode in ALL.concat() {
        for after in 0..25 {
            let latency = Duration::from_millis(5);
            let server = TestingServer::builder().latency(latency..=latency).start();
            let client = server.client().await.expect("a client");
            let node = node_of(&client, mode, "old");
            present(&node).await;
            let _ = tokio::time::timeout(Duration::from_millis(after), node.set_data("new")).await;
            within("it is closed", T, node.close()).await.expect("closed");
            assert!(server.children(DIR).is_empty(), "{mode:?} after {after} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_quick_close_deletes_a_lasting_node_that_was_there_before_or_never_touches_it() {
    for after in 0..60 {
        let latency = Duration::from_millis(5);
        let server = TestingServer::builder().latency(latency..=latency).start();
        let client = server.client().await.expect("a client");
        for path in ["/services", DIR, PATH] {
            server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
        }
        let before = server.stat(PATH);
        let node = node_of(&client, NodeMode::Persistent, "ours");
        tokio::time::sleep(Duration::from_millis(after)).await;
        let adopted = node.path().is_some();
        node.close().await.expect("closed");
        let now = server.stat(PATH);
        assert!(now.is_none() || (now == before && !adopted), "after {after} ms: {now:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quick_close_leaves_a_foreign_node_alone() {
    for after in 0..40 {
        let latency = Duration::from_millis(5);
        let server = TestingServer::builder().latency(latency..=latency).start();
        let (client, other) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
        for path in ["/services", DIR] {
            server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
        }
        other.create(PATH, "theirs", CreateMode::Ephemeral).await.expect("created");
        let before = server.stat(PATH);
        let node = node(&client, "ours");
        tokio::time::sleep(Duration::from_millis(after)).await;
        within("it is closed", T, node.close()).await.expect("closed");
        assert_eq!(server.stat(PATH), before, "after {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_without_a_connection_resolves_when_there_is_one() {
    for mode in ALL.concat() {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "data");
        present(&node).await;
        server.refuse(&client);
        server.disconnect(&client);
        settle().await;
        let mut closing = Box::pin(node.close());
        crate::fixture::still_pending("there is no connection", &mut closing).await;
        server.heal();
        within("it is closed", T * 2, closing).await.expect("closed");
        assert!(server.children(DIR).is_empty(), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_that_is_dropped_goes_on_and_a_call_afterwards_fails() {
    let (server, [client]) = setup().await;
    let node = node(&client, "data");
    present(&node).await;
    assert!(futures::FutureExt::now_or_never(node.close()).is_none());
    within("it is gone", T, server.until(|| server.stat(PATH).is_none())).await;
    node.close().await.expect("closed");
    let error = node.set_data("late").await.expect_err("closed");
    assert_eq!(error.kind(), zookeeper_recipes::ErrorKind::Closed, "{error}");
    settle().await;
    assert_eq!(server.stat(PATH), None);
}

/// The create is so slow that the client has given up its session when it is carried out.
#[tokio::test(start_paused = true)]
async fn a_close_also_deletes_the_node_of_a_create_that_comes_after_its_session_was_given_up() {
    for mode in ALL.concat() {
        for closes in [true, false] {
            let mut late = 0;
            // Of what was sent on a connection that was given up, some arrives, or all, or nothing.
            for seed in 0..16 {
                late += usize::from(ends_before_its_create(seed, mode, closes).await);
            }
            assert!(late > 1, "{mode:?}, close: {closes}: {late} creates came late");
        }
    }
}

/// Closes or drops a node whose create is under way in a session that was given up. Returns whether it came after that.
async fn ends_before_its_create(seed: u64, mode: NodeMode, closes: bool) -> bool {
    let case = format!("{mode:?}, close: {closes}, seed {seed}");
    let server = TestingServer::builder().seed(seed).start();
    for path in ["/services", DIR] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
    let client = client_with(&server, ErrorPolicy::default()).await;
    let session = client.session_id();
    // The ping of before the create still arrives in time, so the servers keep the session.
    server.delay(&client, T * 65 / 100);
    server.refuse(&client);
    tokio::time::sleep(T / 2).await;
    let node = node_of(&client, mode, "data");
    server.until(|| server.records().iter().any(is_create)).await;
    // Otherwise it is dropped here.
    let closing = closes.then(|| tokio::spawn(async move { node.close().await }));
    server.until(|| client.session_id() != session).await;
    server.heal();
    server.until(|| client.session_id().is_some()).await;
    tokio::time::sleep(T / 20).await;
    assert!(server.children(DIR).is_empty(), "{case}: the create is under way");
    let comes = server.until(|| !server.children(DIR).is_empty());
    let has_come = tokio::time::timeout(T, comes).await.is_ok();
    match closing {
        Some(closing) => within("it is closed", T * 3, closing).await.expect("no panic").expect("closed"),
        None => tokio::time::sleep(T * 3).await,
    }
    assert!(server.children(DIR).is_empty(), "{case}");
    settle().await;
    assert!(server.children(DIR).is_empty(), "{case}: later");
    has_come
}

fn is_create(record: &Record) -> bool {
    matches!(record.what, RecordKind::Request { operation: Operation::Create, .. })
}
