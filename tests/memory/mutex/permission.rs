//! A directory in which nodes may be made but neither seen nor deleted.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::testing::Operation;

use super::fixture::{PATH, acquired, line, mutex, released, setup};
use crate::fixture::{SOON, T, requests, still_pending, two_nodes, within};

#[tokio::test(start_paused = true)]
async fn after_a_refused_list_no_further_node_is_made_until_the_first_is_gone() {
    let (server, client, _) = setup().await;
    let before = two_nodes(&server, PATH, "lock-");
    let mutex = mutex(&client);
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("two are before it", &mut waiting).await;
    let ours = line(&server).pop().expect("ours is the last");
    server.deny(PATH);
    server.delete_by_hand(&before[1]).expect("it exists");
    let error = within("it may not list", SOON, waiting).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert!(error.to_string().contains(&format!("{PATH}/{ours}")), "{error}");
    tokio::time::sleep(SOON).await;
    assert!(client.last_error().is_some_and(|error| error.kind() == ErrorKind::NoAuth), "nor delete");

    server.clear_records();
    for _ in 0..3 {
        let error = mutex.acquire().await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
        assert!(error.to_string().contains(&ours), "{error}");
        assert_eq!(mutex.try_acquire().await.expect_err("refused").kind(), ErrorKind::NoAuth);
    }
    assert!(!requests(&server).contains(&Operation::Create), "{:?}", requests(&server));

    server.allow(PATH);
    server.delete_by_hand(&before[0]).expect("it exists");
    within("the janitor is through", T * 4, acquired_in_the_end(&mutex)).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_refused_delete_no_further_node_is_made_until_the_first_is_gone() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    let guard = acquired(&mutex).await;
    let ours = guard.node_path().to_owned();
    server.deny(PATH);
    assert_eq!(guard.release().await.expect_err("refused").kind(), ErrorKind::NoAuth);
    server.clear_records();
    let error = mutex.acquire().await.expect_err("refused");
    assert!(error.to_string().contains(&ours), "{error}");
    assert!(!requests(&server).contains(&Operation::Create), "{:?}", requests(&server));
    server.allow(PATH);
    within("the janitor is through", T * 4, acquired_in_the_end(&mutex)).await;
}

/// The next attempts tell the same until the janitor's delete is answered.
async fn acquired_in_the_end(mutex: &InterProcessMutex) {
    loop {
        match mutex.acquire().await {
            Ok(guard) => return released(guard).await,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
