//! Nodes deleted by hand.

use std::time::Duration;

use zookeeper_recipes::mutex::Error;
use zookeeper_recipes::testing::{Operation, TestingServer};

use super::fixture::{PATH, acquired, line, make_directory, mutex, released, setup};
use crate::fixture::{SOON, T, still_pending, two_nodes, within};

#[tokio::test(start_paused = true)]
async fn a_holder_that_waits_for_it_is_told_when_its_node_is_deleted() {
    let (server, client, _) = setup().await;
    let guard = acquired(&mutex(&client)).await;
    let mut lost = Box::pin(guard.lost());
    still_pending("held", &mut lost).await;
    server.delete_by_hand(guard.node_path()).expect("it exists");
    within("it is told", SOON, lost).await;
    assert!(!guard.is_held());
    assert!(guard.reenter().is_err());
    let error = within("there is nothing to release", SOON, guard.release()).await.expect_err("it had been lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert!(line(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_had_to_wait_notices_by_itself() {
    let (server, one, two) = setup().await;
    let first = acquired(&mutex(&one)).await;
    let two = mutex(&two);
    let mut waiting = Box::pin(two.acquire());
    still_pending("the lock is held", &mut waiting).await;
    released(first).await;
    let guard = waiting.await.expect("held");
    assert!(guard.is_held());
    server.delete_by_hand(guard.node_path()).expect("it exists");
    server.until(|| !guard.is_held()).await;
    within("it is told", SOON, guard.lost()).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_had_to_wait_notices_by_itself_also_after_it_was_asked_to_let_go() {
    let (server, one, two) = setup().await;
    let first = acquired(&mutex(&one)).await;
    let two = mutex(&two);
    let mut waiting = Box::pin(two.acquire());
    still_pending("the lock is held", &mut waiting).await;
    released(first).await;
    let guard = waiting.await.expect("held");
    zookeeper_recipes::mutex::revoke(&one, guard.node_path()).await.expect("it is asked to");
    tokio::time::sleep(SOON).await;
    assert!(guard.is_held());
    tokio::time::sleep(SOON).await;
    server.delete_by_hand(guard.node_path()).expect("it exists");
    server.until(|| !guard.is_held()).await;
    guard.release().await.expect_err("it had been lost");
}

#[tokio::test(start_paused = true)]
async fn a_fence_does_not_outlive_its_node() {
    let (server, client, _) = setup().await;
    let guard = acquired(&mutex(&client)).await;
    let write = || client.transaction().check(&guard.fence()).set_data(PATH, "mine", None).commit();
    write().await.expect("held");
    server.delete_by_hand(guard.node_path()).expect("it exists");
    let error = write().await.expect_err("superseded");
    assert_eq!(error.kind(), zookeeper_recipes::ErrorKind::Fenced);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_node_is_deleted_rejoins() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let mutex = mutex(&two);
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    for _ in 0..3 {
        let node = line(&server)[1].clone();
        server.delete_by_hand(&format!("{PATH}/{node}")).expect("it exists");
        still_pending("the lock is held", &mut waiting).await;
        assert_eq!(line(&server).len(), 2);
        assert_ne!(line(&server)[1], node);
    }
    released(guard).await;
    released(within("it is its turn", T, waiting).await.expect("held")).await;
}

#[tokio::test(start_paused = true)]
async fn a_predecessor_in_the_middle_that_is_deleted_promotes_no_waiter() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let (one, two) = (mutex(&one), mutex(&two));
    let mut middle = Box::pin(one.acquire());
    still_pending("the lock is held", &mut middle).await;
    let mut last = Box::pin(two.acquire());
    still_pending("the lock is held", &mut last).await;
    server.delete_by_hand(&format!("{PATH}/{}", line(&server)[1])).expect("it exists");
    still_pending("the lock is held", &mut last).await;
    still_pending("the lock is held", &mut middle).await;
    released(guard).await;
    // The one in the middle has lost its place to the last.
    let last = within("it is its turn", SOON, last).await.expect("held");
    still_pending("the lock is held", &mut middle).await;
    released(last).await;
    released(within("it is its turn", SOON, middle).await.expect("held")).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_deleted_together_with_the_holder_does_not_hold_with_a_node_that_is_gone() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let mutex = mutex(&two);
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    let nodes = line(&server);
    for node in nodes.iter().rev() {
        server.delete_by_hand(&format!("{PATH}/{node}")).expect("it exists");
    }
    let next = within("it has a new place", SOON, waiting).await.expect("held");
    assert!(nodes.iter().all(|node| !next.node_path().ends_with(node)));
    assert!(server.stat(next.node_path()).is_some());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_is_deleted_with_all_in_it_is_made_again() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let mutex = mutex(&two);
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    let lost = guard.lost();
    for node in line(&server) {
        server.delete_by_hand(&format!("{PATH}/{node}")).expect("it exists");
    }
    server.delete_by_hand(PATH).expect("it is empty");
    within("it is told", SOON, lost).await;
    let next = within("it has a new place", SOON, waiting).await.expect("held");
    assert!(server.stat(next.node_path()).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_directory_deleted_while_a_waiter_lists_it_is_created_again() {
    let server = TestingServer::builder().latency(Duration::from_millis(5)..=Duration::from_millis(5)).start();
    let client = server.client().await.expect("a client");
    make_directory(&server);
    let before = two_nodes(&server, PATH, "lock-");
    let mutex = mutex(&client);
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("two are before it", &mut waiting).await;
    let lists = server.count(&client, Operation::List);
    server.delete_by_hand(&before[1]).expect("it exists");
    let gone = async {
        server.until(|| server.count(&client, Operation::List) > lists).await;
        // The list is on its way.
        for node in line(&server) {
            server.delete_by_hand(&format!("{PATH}/{node}")).expect("it exists");
        }
        server.delete_by_hand(PATH).expect("it is empty");
    };
    let (held, ()) = tokio::join!(within("it has a new place", SOON, waiting), gone);
    let held = held.expect("the lock, and no error");
    assert!(server.stat(held.node_path()).is_some());
}
