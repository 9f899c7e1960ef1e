//! Replies that are lost, sessions that end, servers that are away, processes that stand still.

use std::time::Duration;

use zookeeper_recipes::testing::{Data, Loss, Operation};
use zookeeper_recipes::{Client, ErrorKind, RetryPolicy};

use super::fixture::{barrier, is_set, setup};
use crate::fixture::{SOON, T, still_pending, timed, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

#[tokio::test(start_paused = true)]
async fn a_set_or_remove_whose_reply_is_lost_is_repeated_until_it_is_done() {
    for loss in LOSSES {
        let (server, client, _) = setup().await;
        let barrier = barrier(&client);
        server.lose_next_reply(&client, Operation::Create, loss);
        within("set", T, barrier.set()).await.expect("set");
        assert!(is_set(&server), "{loss:?}");
        server.lose_next_reply(&client, Operation::Delete, loss);
        within("removed", T, barrier.remove()).await.expect("removed");
        assert!(!is_set(&server), "{loss:?}");
        assert_eq!(server.lost_replies(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_remove_whose_reply_is_lost_leaves_a_barrier_alone_that_was_set_since() {
    let (server, one, two) = setup().await;
    let [first, second] = [barrier(&one), barrier(&two)];
    first.set().await.expect("set");
    server.lose_next_reply(&one, Operation::Delete, Loss::Applied);
    let removing = tokio::spawn(async move { first.remove().await });
    server.until(|| !is_set(&server)).await;
    second.set().await.expect("set");
    let error = within("an answer", T, removing).await.expect("no panic").expect_err("it cannot know");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(is_set(&server));
}

#[tokio::test(start_paused = true)]
async fn a_wait_whose_reply_is_lost_looks_again() {
    for operation in [Operation::Sync, Operation::GetData] {
        for loss in LOSSES {
            let (server, one, two) = setup().await;
            barrier(&one).set().await.expect("set");
            server.lose_next_reply(&two, operation, loss);
            let waiting = barrier(&two);
            let mut waits = Box::pin(waiting.wait());
            assert!(tokio::time::timeout(T, &mut waits).await.is_err(), "the barrier is set");
            assert_eq!(server.lost_replies(), 1, "{operation:?} {loss:?}");
            barrier(&one).remove().await.expect("removed");
            within("it is gone", SOON, waits).await.expect("an answer");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_survives_its_session_again_and_again() {
    let (server, one, two) = setup().await;
    barrier(&one).set().await.expect("set");
    let waiting = barrier(&two);
    let mut waits = Box::pin(waiting.wait());
    for _ in 0..3 {
        still_pending("the barrier is set", &mut waits).await;
        server.expire_session(&two);
        assert!(tokio::time::timeout(T, &mut waits).await.is_err(), "the barrier is set");
    }
    // Removed while there is no session at all.
    server.refuse(&two);
    server.expire_session(&two);
    still_pending("it cannot know", &mut waits).await;
    barrier(&one).remove().await.expect("removed");
    server.heal();
    within("it is gone", T, waits).await.expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn a_wait_outlives_the_servers_and_a_process_that_was_frozen() {
    let (server, one, two) = setup().await;
    barrier(&one).set().await.expect("set");
    let waiting = barrier(&two);
    let waits = server.spawn(&two, async move { waiting.wait().await });
    tokio::time::sleep(SOON).await;
    server.stop();
    tokio::time::sleep(T / 4).await;
    server.restart(Data::Kept);
    tokio::time::sleep(SOON).await;
    server.freeze_client(&two);
    barrier(&one).remove().await.expect("removed");
    tokio::time::sleep(T * 3).await;
    server.thaw_client(&two);
    within("it hears", T, waits).await.expect("no panic").expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn a_timed_wait_says_whether_it_was_told_anything() {
    let (server, one, two) = setup().await;
    barrier(&one).set().await.expect("set");
    let waiting = barrier(&two);
    // The barrier is seen, and then the connection is silent.
    let (took, gone) = tokio::join!(timed(waiting.wait_timeout(SOON * 3)), async {
        tokio::time::sleep(SOON).await;
        server.black_hole(&two);
    })
    .0;
    assert!(!gone.expect("as far as was told"));
    assert!(took <= SOON * 3, "{took:?}");
    let error = waiting.wait_timeout(SOON).await.expect_err("no event has arrived");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.is_retryable() && !error.is_lost());
    server.heal();
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_set_and_remove_give_up_as_the_retry_policy_says() {
    let (server, _, _) = setup().await;
    let client = Client::builder_for_testing(&server).session_timeout(T).connection_timeout(SOON);
    let client = client.retry(RetryPolicy::never()).connect().await.expect("a client");
    let barrier = barrier(&client);
    server.refuse(&client);
    server.disconnect(&client);
    server.until(|| !client.connection_state().is_connected()).await;
    for done in [barrier.set().await, barrier.remove().await] {
        let error = done.expect_err("there is no connection");
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
        assert!(error.is_retryable());
    }
    server.heal();
    tokio::time::sleep(Duration::from_secs(5)).await;
    barrier.set().await.expect("set");
}
