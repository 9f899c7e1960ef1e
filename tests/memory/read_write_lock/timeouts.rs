//! Calls with a deadline.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::testing::Operation;

use super::fixture::{line, lock, reading, setup, writing};
use crate::fixture::{T, requests, timed};

#[tokio::test(start_paused = true)]
async fn a_timed_acquire_ends_in_time_and_leaves_no_node() {
    let (server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    let (took, got) = timed(lock(&two).read().acquire_timeout(T)).await;
    assert!(got.expect("an answer").is_none() && took <= T, "{took:?}");
    let (took, got) = timed(lock(&two).write().acquire_timeout(T)).await;
    assert!(got.expect("an answer").is_none() && took <= T, "{took:?}");
    assert_eq!(line(&server).len(), 1);
    drop(writer);
    let reader = lock(&two).read().acquire_timeout(T).await.expect("an answer").expect("it is free");
    assert!(lock(&one).read().acquire_timeout(T).await.expect("an answer").is_some(), "beside another reader");
    assert!(lock(&one).write().try_acquire().await.expect("an answer").is_none());
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_zero_asks_nothing() {
    let (server, [client]) = setup().await;
    server.clear_records();
    let error = lock(&client).read().acquire_timeout(Duration::ZERO).await.expect_err("there is no time");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(requests(&server), [Operation::Create; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_asks_to_write_waits_for_itself_until_its_time_is_over() {
    let (server, [client]) = setup().await;
    let reader = reading(&client).await;
    assert!(lock(&client).write().acquire_timeout(T).await.expect("an answer").is_none());
    assert!(lock(&client).write().try_acquire().await.expect("an answer").is_none());
    assert!(reader.is_held());
    assert_eq!(line(&server).len(), 1);
}
