//! What each call costs.

use zookeeper_recipes::testing::Operation::{self, Create, GetData, Multi};

use super::fixture::{PATH, number, setup, setup_with};
use crate::fixture::requests;

#[tokio::test(start_paused = true)]
async fn an_uncontended_addition_is_one_request() {
    let (server, [client]) = setup_with(0).await;
    let hits = number(&client);
    server.clear_records();
    hits.increment().await.expect("added");
    assert_eq!(requests(&server), [Create, GetData, Multi], "the first one");
    server.clear_records();
    for _ in 0..10 {
        hits.increment().await.expect("added");
    }
    hits.set(3).await.expect("set");
    assert_eq!(hits.compare_and_set(3, 4).await, Ok(true));
    assert_eq!(requests(&server), [Multi; 12]);
    assert_eq!(server.count(&client, Operation::Sync), 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_number_costs_its_creation() {
    let (server, [client]) = setup::<1>().await;
    server.create_by_hand("/counters", "", zookeeper_recipes::CreateMode::Persistent).expect("a new node");
    server.clear_records();
    number(&client).increment().await.expect("added");
    assert_eq!(requests(&server)[..5], [Create, Create, Create, GetData, Multi]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_try_costs_one_read_and_one_transaction_more() {
    let (server, [client, other]) = setup_with(0).await;
    let hits = number(&client);
    hits.increment().await.expect("added");
    other.set(PATH, 9_i64.to_be_bytes(), None).await.expect("set");
    server.clear_records();
    assert_eq!(hits.increment().await.expect("added").after, 10);
    assert_eq!(requests(&server), [Multi, GetData, Multi]);
}

#[tokio::test(start_paused = true)]
async fn what_decides_that_nothing_is_written_is_read_after_a_sync() {
    let (server, [client]) = setup_with(0).await;
    let hits = number(&client);
    let sent = client.request_counts();
    assert_eq!(hits.get().await, Ok(0));
    assert_eq!(hits.compare_and_set(1, 2).await, Ok(false));
    let sent = client.request_counts() - sent;
    assert_eq!((sent.syncs, sent.reads, sent.total()), (2, 2, 4), "{sent}");
    hits.increment().await.expect("added");
    let sent = client.request_counts();
    assert_eq!(hits.compare_and_set(5, 6).await, Ok(false));
    let sent = client.request_counts() - sent;
    assert_eq!((sent.syncs, sent.reads, sent.total()), (1, 1, 2), "{sent}");
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_number_sends_no_heartbeats() {
    let (_server, [client]) = setup_with(0).await;
    let hits = number(&client);
    hits.increment().await.expect("added");
    assert_eq!(crate::fixture::heartbeats(&client, crate::fixture::T * 5).await, 0);
    hits.increment().await.expect("added");
}
