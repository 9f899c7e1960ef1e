//! One deadline covers everything, and its end tells the truth.

use std::time::Duration;

use zookeeper_recipes::testing::Operation;
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{PATH, acquired, line, line_has, mutex, released, setup};
use crate::fixture::{SOON, T, nothing_is_left, requests, still_pending, timed};

const WAIT: Duration = Duration::from_secs(4);

#[tokio::test(start_paused = true)]
async fn none_means_that_nothing_is_left_and_comes_before_the_deadline() {
    let (server, one, two) = setup().await;
    let _held = acquired(&mutex(&one)).await;
    let (took, tried) = timed(mutex(&two).acquire_timeout(WAIT)).await;
    assert!(tried.expect("it is known").is_none());
    assert!(took <= WAIT && took >= WAIT * 7 / 8, "{took:?}");
    // Not later: now.
    assert_eq!(line(&server).len(), 1);
    nothing_is_left(&server, PATH, 1, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_comes_free_in_time_is_had() {
    let (server, one, two) = setup().await;
    let held = acquired(&mutex(&one)).await;
    let waiting = server.spawn(&two, {
        let mutex = mutex(&two);
        async move { mutex.acquire_timeout(WAIT).await }
    });
    tokio::time::sleep(WAIT / 2).await;
    released(held).await;
    assert!(waiting.await.expect("no panic").expect("known").expect("held").is_held());
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_sends_nothing_and_more_than_the_clock_can_tell_is_for_ever() {
    let (server, one, two) = setup().await;
    let (mutex_one, mutex_two) = (mutex(&one), mutex(&two));
    server.clear_records();
    let no_time = mutex_one.acquire_timeout(Duration::ZERO).await.expect_err("no server was asked");
    assert_eq!(no_time.kind(), ErrorKind::TimedOut);
    assert!(requests(&server).is_empty());
    let held = mutex_one.acquire_timeout(Duration::MAX).await.expect("free").expect("held");
    let mut for_ever = Box::pin(mutex_two.acquire_timeout(Duration::MAX));
    still_pending("held", &mut for_ever).await;
    drop(held);
    assert!(for_ever.await.expect("free").is_some());
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_from_the_start_the_error_at_the_deadline_says_so_and_nothing_is_left() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    server.refuse(&client);
    server.disconnect(&client);
    server.until(|| client.session_id().is_none() || !client.connection_state().is_connected()).await;
    let (took, tried) = timed(mutex.acquire_timeout(Duration::from_secs(1))).await;
    let error = tried.expect_err("the holder is unknown");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.is_retryable() && error.to_string().contains("no server could be asked"), "{error}");
    assert!(took <= Duration::from_secs(1), "{took:?}");
    server.heal();
    tokio::time::sleep(T).await;
    assert!(line(&server).is_empty());
}

/// Times out an acquire during a silence, and heals the server.
async fn in_silence(server: &zookeeper_recipes::testing::TestingServer, client: &Client, wait: Duration) {
    let mutex = mutex(client);
    let (took, tried) = timed(mutex.acquire_timeout(wait)).await;
    let error = tried.expect_err("the outcome is unknown");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(took <= wait + Duration::from_millis(1), "{took:?} of {wait:?}");
    server.heal();
}

#[tokio::test(start_paused = true)]
async fn in_a_silent_partition_the_call_returns_at_its_deadline_and_the_node_is_removed_later() {
    for wait in [Duration::from_millis(500), Duration::from_secs(3), T * 2] {
        let (server, one, two) = setup().await;
        let held = acquired(&mutex(&one)).await;
        // The create is on its way, and nothing comes back.
        let before = server.count(&two, Operation::Create);
        server.black_hole(&two);
        in_silence(&server, &two, wait).await;
        assert!(server.count(&two, Operation::Create) > before);
        tokio::time::sleep(T * 2).await;
        nothing_is_left(&server, PATH, 1, 0, "afterwards").await;
        assert!(held.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_begins_while_waiting_does_not_move_the_deadline() {
    let (server, one, two) = setup().await;
    let held = acquired(&mutex(&one)).await;
    let waiting = mutex(&two);
    let waiting = timed(waiting.acquire_timeout(WAIT));
    let cut = async {
        line_has(&server, 2).await;
        tokio::time::sleep(SOON).await;
        server.black_hole(&two);
    };
    let ((took, tried), ()) = tokio::join!(waiting, cut);
    assert_eq!(tried.expect_err("the outcome is unknown").kind(), ErrorKind::OutcomeUnknown);
    assert!(took <= WAIT + Duration::from_millis(1), "{took:?}");
    server.heal();
    tokio::time::sleep(T).await;
    nothing_is_left(&server, PATH, 1, 0, "afterwards").await;
    assert!(held.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ended_while_waiting_leaves_it_open_whether_its_node_is_gone() {
    let (server, one, two) = setup().await;
    let _held = acquired(&mutex(&one)).await;
    let waiting = mutex(&two);
    let waiting = waiting.acquire_timeout(T);
    let expire = async {
        line_has(&server, 2).await;
        server.expire_session(&two);
    };
    let (tried, ()) = tokio::join!(waiting, expire);
    assert_eq!(tried.expect_err("the old session's node").kind(), ErrorKind::OutcomeUnknown);
    nothing_is_left(&server, PATH, 1, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn a_try_gives_up_after_the_connection_timeout() {
    let (server, _, _) = setup().await;
    let patience = Duration::from_secs(3);
    let client = Client::builder_for_testing(&server).session_timeout(T).connection_timeout(patience);
    let client = client.connect().await.expect("a client");
    let mutex = mutex(&client);
    server.refuse(&client);
    server.disconnect(&client);
    server.until(|| !client.connection_state().is_connected()).await;
    let (took, tried) = timed(mutex.try_acquire()).await;
    let error = tried.expect_err("no server");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.is_retryable());
    assert!(took <= patience, "{took:?}");

    server.heal();
    server.until(|| client.connection_state().is_connected()).await;
    server.black_hole(&client);
    let (took, tried) = timed(mutex.try_acquire()).await;
    assert_eq!(tried.expect_err("the outcome is unknown").kind(), ErrorKind::OutcomeUnknown);
    assert!(took <= patience + Duration::from_millis(1), "{took:?}");
    server.heal();
    tokio::time::sleep(T * 2).await;
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}
