//! Sessions that end, servers that lag, nodes that are deleted, permissions, processes that stop.

use std::time::Duration;

use zookeeper_recipes::shared_value::Error;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode, ErrorKind, Heartbeat};

use super::fixture::{PATH, held, missing, now, setup, text, until_is};
use crate::fixture::{SOON, T, polled, within};

#[tokio::test(start_paused = true)]
async fn an_own_write_is_read_although_the_copy_lags() {
    let lag = Duration::from_millis(500);
    let server = TestingServer::builder().latency(lag..=lag).start();
    let client = server.client().await.expect("a client");
    let value = text(&client, "0").await;
    for number in 1..=5 {
        let written = value.set(number.to_string()).await.expect("set");
        assert_eq!((now(&value), written.version()), (number.to_string(), number), "the copy is not read yet");
    }
}

/// As far as the copy knows, the node may not have been there yet when it was written, so it takes a heartbeat.
#[tokio::test(start_paused = true)]
async fn an_own_write_is_forgotten_when_its_node_is_deleted() {
    let (server, [client]) = setup().await;
    let value = text(&client, "a").await;
    value.set("b").await.expect("set");
    server.delete_by_hand(PATH).expect("it is there");
    within("it is seen", T, server.until(|| value.get().is_err())).await;
    assert_eq!(value.get().expect_err("no node"), missing());
    assert_eq!(value.set("c").await.expect_err("no node"), missing());
    assert_eq!(held(&server), None, "it is not created again");
    let again = text(&client, "seed").await;
    until_is(&value, "seed".to_owned()).await;
    assert_eq!(now(&again), "seed");
}

/// Also where only the answer of a quorum is proof, so that the sync of the copy confirms nothing.
#[tokio::test(start_paused = true)]
async fn an_own_write_whose_node_is_deleted_is_not_synced() {
    let server = TestingServer::start();
    let client = Client::builder_for_testing(&server).heartbeat(Heartbeat::Quorum).connect().await.expect("a client");
    let value = text(&client, "a").await;
    value.set("b").await.expect("set");
    server.delete_by_hand(PATH).expect("it is there");
    assert_eq!(within("it is synced", SOON, value.synced()).await.expect_err("no node"), missing());
    assert_eq!(value.get().expect_err("no node"), missing());
}

#[tokio::test(start_paused = true)]
async fn a_value_of_a_deleted_node_does_not_replace_that_of_the_next_one() {
    let (server, [client]) = setup().await;
    let value = text(&client, "a").await;
    let before = value.get().expect("a value");
    server.delete_by_hand(PATH).expect("it is there");
    within("it is seen", T, server.until(|| value.get().is_err())).await;
    // With the same version. The client does not know of it yet.
    server.create_by_hand(PATH, "z", CreateMode::Persistent).expect("a new node");
    assert_eq!(value.get().expect_err("no node"), missing());
    let swapped = within("it is decided", T, value.compare_and_set(&before, "b")).await;
    assert_eq!(swapped, Ok(false));
    assert_eq!(held(&server).as_deref(), Some("z"));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hits_another_node_is_told() {
    let (server, [client]) = setup().await;
    let value = text(&client, "a").await;
    let before = value.get().expect("a value");
    // The client knows of neither yet.
    server.delete_by_hand(PATH).expect("it is there");
    server.create_by_hand(PATH, "z", CreateMode::Persistent).expect("a new node");
    let error = within("it is decided", T, value.compare_and_set(&before, "b")).await.expect_err("another node");
    assert_eq!(error, Error::Replaced { path: PATH.into() });
    assert!(!error.is_retryable() && !error.is_lost(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_told_and_what_comes_after_it_too() {
    let (server, [client]) = setup().await;
    let value = text(&client, "a").await;
    let mut changes = value.changes();
    server.delete_by_hand(PATH).expect("it is there");
    assert_eq!(within("it is told", T, changes.next()).await.expect("it goes on").expect_err("no node"), missing());
    server.create_by_hand(PATH, "b", CreateMode::Persistent).expect("a new node");
    let next = within("it is told", T, changes.next()).await.expect("it goes on").expect("a value");
    assert_eq!((next.value().as_str(), next.version()), ("b", 0));
    server.set_data_by_hand(PATH, [0xff]).expect("it is there");
    let error = within("it is told", T, changes.next()).await.expect("it goes on").expect_err("no text");
    assert!(matches!(error, Error::Undecodable { version: 1, .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn the_next_session_goes_on() {
    let (server, [one, two]) = setup().await;
    let (value, other) = (text(&one, "a").await, text(&two, "a").await);
    server.expire_session(&one);
    other.set("b").await.expect("set");
    until_is(&value, "b".to_owned()).await;
    within("in the next session", T, value.set("c")).await.expect("set");
    until_is(&other, "c".to_owned()).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_sees_what_it_has_missed() {
    let (server, [one, two]) = setup().await;
    let (value, other) = (text(&one, "a").await, text(&two, "a").await);
    let before = value.get().expect("there is one");
    server.freeze_client(&one);
    tokio::time::sleep(T * 3).await;
    other.set("b").await.expect("set");
    server.thaw_client(&one);
    assert_eq!(within("it is known", T * 3, value.compare_and_set(&before, "c")).await, Ok(false));
    assert_eq!(within("it is synced", T * 3, value.synced()).await.expect("synced").value(), "b");
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_are_errors_that_say_so() {
    let (server, [client]) = setup().await;
    server.create_by_hand("/config", "", CreateMode::Persistent).expect("a new node");
    server.deny("/config");
    let start = || {
        use zookeeper_recipes::shared_value::{SharedValue, Utf8};
        SharedValue::builder(&client, PATH).decode(Utf8).seed("a").start()
    };
    assert_eq!(start().await.expect_err("denied").kind(), ErrorKind::NoAuth);
    server.create_by_hand(PATH, "b", CreateMode::Persistent).expect("a new node");
    let value = start().await.expect("it exists, so the permission to create it is not needed");
    assert_eq!(now(&value), "b");
    server.deny(PATH);
    let error = value.set("c").await.expect_err("denied");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    let other = start().await.expect("a value that may not be read is a state");
    let error = other.get().expect_err("denied");
    assert!(error.kind() == ErrorKind::NoAuth && error.to_string().contains(PATH), "{error}");
    assert_eq!(held(&server).as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_is_an_error() {
    let (_server, [client]) = setup().await;
    let value = text(&client, "a").await;
    client.close().await.expect("closed");
    let error = value.set("b").await.expect_err("closed");
    assert!(matches!(error, Error::Closed { .. }) && error.is_lost(), "{error:?}");
    assert!(matches!(value.synced().await, Err(Error::Closed { .. })));
    assert!(matches!(value.wait_for(|now| now == "b").await, Err(Error::Closed { .. })));
    assert_eq!(now(&value), "a", "what was known stays");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_dropped_at_any_poll_is_carried_out_at_most_once() {
    for polls in 0..4 {
        let (server, [client]) = setup().await;
        let value = text(&client, "a").await;
        let dropped = polled(polls, value.update(|now| Some(format!("{now}b")))).await;
        let next = within("the next one", T, value.update(|now| Some(format!("{now}c")))).await;
        let next = next.expect("updated").expect("written");
        assert!(*next == "abc" || (*next == "ac" && dropped.is_none()), "{next}");
        assert_eq!(held(&server).as_deref(), Some(next.value().as_str()));
    }
}

/// The servers' `jute.maxbuffer` is lower than the client believes, and they close the connection.
#[tokio::test(start_paused = true)]
async fn a_value_too_large_is_refused_and_the_next_one_is_written() {
    let (server, [client]) = setup().await;
    server.max_buffer(64 * 1024);
    let value = text(&client, "a").await;
    let set = within("it ends", T, value.set("x".repeat(100_000))).await;
    let error = set.expect_err("it is too large");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    value.set("b").await.expect("set");
    assert_eq!(held(&server).as_deref(), Some("b"));
}
