//! Other clients delete the number, or the node of a handle.

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::atomic_long::Error;

use super::fixture::{PATH, held, number, pair, setup_with, writers};
use crate::fixture::{T, within};

#[tokio::test(start_paused = true)]
async fn a_deleted_number_counts_as_0_and_is_created_again() {
    let (server, [client]) = setup_with(7).await;
    let hits = number(&client);
    hits.increment().await.expect("added");
    server.delete_by_hand(PATH).expect_err("the handle's node is below it");
    for node in writers(&server) {
        server.delete_by_hand(&node).expect("it is there");
    }
    server.delete_by_hand(PATH).expect("it is empty");
    assert_eq!(hits.get().await, Ok(0));
    assert_eq!(hits.compare_and_set(8, 9).await, Ok(false));
    assert_eq!(pair(within("it is created", T, hits.increment()).await.expect("added")), (0, 1));
    within("one node", T, server.until(|| writers(&server).len() == 1)).await;
}

/// What a handle remembers is of the first node; the second one has the same version.
#[tokio::test(start_paused = true)]
async fn what_is_remembered_of_a_deleted_number_is_never_written_into_the_next_one() {
    let (server, [client]) = setup_with(1_000).await;
    let hits = number(&client);
    assert_eq!(hits.increment().await.expect("added").after, 1_001);
    let version = server.stat(PATH).expect("it is there").version;
    for node in writers(&server) {
        server.delete_by_hand(&node).expect("it is there");
    }
    server.delete_by_hand(PATH).expect("it is empty");
    server.create_by_hand(PATH, 5_i64.to_be_bytes(), CreateMode::Persistent).expect("a new node");
    server.set_version(PATH, version).expect("it is there");
    assert_eq!(pair(within("it is read again", T, hits.increment()).await.expect("added")), (5, 6));
    assert_eq!(held(&server), Some(6));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_foreign_node_of_the_handle_is_replaced() {
    for deleted in [true, false] {
        let (server, [client]) = setup_with(0).await;
        let hits = number(&client);
        hits.increment().await.expect("added");
        let node = writers(&server).pop().expect("the handle's node");
        if deleted {
            server.delete_by_hand(&node).expect("it is there");
        } else {
            server.set_data_by_hand(&node, "foreign").expect("it is there");
        }
        assert_eq!(pair(within("it is added", T, hits.increment()).await.expect("added")), (1, 2));
        within("another node", T, server.until(|| writers(&server).len() == 1)).await;
        assert_ne!(writers(&server), [node]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_permission_nothing_is_written_and_the_error_says_which_are_needed() {
    let (server, [client]) = setup_with(3).await;
    let hits = number(&client);
    server.deny(PATH);
    for error in [hits.increment().await.expect_err("denied"), hits.set(1).await.expect_err("denied")] {
        assert_eq!(error.kind(), zookeeper_recipes::ErrorKind::NoAuth, "{error}");
        assert!(error.to_string().contains("READ, WRITE, CREATE and DELETE"), "{error}");
    }
    let error = hits.get().await.expect_err("denied");
    assert!(matches!(error, Error::Client { .. }) && !error.is_retryable(), "{error:?}");
    server.allow(PATH);
    hits.increment().await.expect("added");
    server.deny(PATH);
    let error = hits.increment().await.expect_err("denied");
    assert_eq!(error.kind(), zookeeper_recipes::ErrorKind::NoAuth, "{error}");
    assert_eq!(held(&server), Some(4));
    server.allow(PATH);
    assert_eq!(pair(hits.increment().await.expect("added")), (4, 5));
}
