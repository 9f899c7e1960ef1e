//! The connection breaks and comes back in time.

use futures::FutureExt;
use zookeeper_recipes::mutex::Error;
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{ConnectionState, ErrorPolicy};

use super::fixture::{acquired, line, make_directory, mutex, released, setup};
use crate::fixture::{SOON, T, client_with, still_pending, within};

#[tokio::test(start_paused = true)]
async fn under_the_standard_policy_a_lock_is_lost_with_the_connection_and_its_node_stays_until_the_guard_goes() {
    for told in [true, false] {
        let (server, one, two) = setup().await;
        let (one_mutex, two_mutex) = (mutex(&one), mutex(&two));
        let guard = acquired(&one_mutex).await;
        if told {
            still_pending("held", &mut Box::pin(guard.lost())).await;
        }
        let mut waiting = Box::pin(two_mutex.acquire());
        still_pending("the lock is held", &mut waiting).await;
        let session = one.session_id();
        assert_eq!(server.disconnect(&one), 1);
        server.until(|| one.connection_state() == ConnectionState::Reconnected).await;
        assert_eq!(one.session_id(), session);
        assert!(!guard.is_held());
        within("it is told", T, guard.lost()).await;
        assert!(guard.reenter().is_err());
        // Its owner may not have looked yet: no other waiter acquires the lock before the guard is dropped.
        still_pending("the guard is there", &mut waiting).await;
        assert_eq!(line(&server).len(), 2);
        let error = within("release", SOON, guard.release()).await.expect_err("it had been lost");
        assert!(matches!(error, Error::Lost { .. }) && !error.is_retryable(), "{error:?}");
        assert_eq!(line(&server).len(), 1, "the node is deleted all the same");
        released(within("it is its turn", T, waiting).await.expect("held")).await;
    }
}

/// The request fails a moment before the session knows why.
#[tokio::test(start_paused = true)]
async fn a_holder_whose_connection_breaks_during_a_request_is_told_at_once_not_after_the_outage() {
    for seed in 0..20 {
        let server = TestingServer::builder().seed(seed).start();
        let client = server.client().await.expect("a client");
        let guard = acquired(&mutex(&client)).await;
        let reads = || server.count(&client, Operation::GetData);
        let before = reads();
        let told = async {
            let mut lost = Box::pin(guard.lost());
            assert!((&mut lost).now_or_never().is_none(), "held");
            server.until(|| reads() > before).await;
            server.refuse(&client);
            server.disconnect(&client);
            lost.await;
        };
        within("it is told", SOON, told).await;
        assert!(!guard.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn under_the_session_policy_a_lock_survives_a_short_outage() {
    let (server, _, _) = setup().await;
    let client = client_with(&server, ErrorPolicy::Session).await;
    let guard = acquired(&mutex(&client)).await;
    let mut lost = Box::pin(guard.lost());
    still_pending("held", &mut lost).await;
    server.refuse(&client);
    server.disconnect(&client);
    server.until(|| client.connection_state() == ConnectionState::Suspended).await;
    assert!(guard.is_held());
    still_pending("held", &mut lost).await;
    server.heal();
    server.until(|| client.connection_state() == ConnectionState::Reconnected).await;
    assert!(guard.is_held());
    still_pending("held", &mut lost).await;
    drop(lost);
    released(guard).await;
}

#[tokio::test(start_paused = true)]
async fn under_the_session_policy_a_lock_ends_with_the_lease_during_a_long_outage() {
    let (server, _, other) = setup().await;
    let client = client_with(&server, ErrorPolicy::Session).await;
    let guard = acquired(&mutex(&client)).await;
    let next = server.spawn(&other, {
        let mutex = mutex(&other);
        async move { mutex.acquire().await }
    });
    server.refuse(&client);
    server.disconnect(&client);
    within("it is told", T, guard.lost()).await;
    assert!(!guard.is_held());
    assert!(within("the next one gets it", T * 2, next).await.expect("no panic").expect("held").is_held());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_loses_its_connection_keeps_its_place() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let mutex = mutex(&two);
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    let before = line(&server);
    for _ in 0..3 {
        assert_eq!(server.disconnect(&two), 1);
        still_pending("the lock is held", &mut waiting).await;
    }
    assert_eq!(line(&server), before);
    released(guard).await;
    let next = within("it is its turn", T, waiting).await.expect("held");
    assert!(next.node_path().ends_with(&before[1]));
}

#[tokio::test(start_paused = true)]
async fn a_predecessor_that_leaves_while_the_waiter_is_cut_off_is_not_missed() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let mutex = mutex(&two);
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    server.refuse(&two);
    server.disconnect(&two);
    released(guard).await;
    still_pending("cut off", &mut waiting).await;
    server.heal();
    drop(within("it is its turn", T, waiting).await.expect("held"));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_ends_a_hold_and_both_holder_and_waiter_finish_after_its_restart() {
    use zookeeper_recipes::testing::Data;
    for data in [Data::Kept, Data::Lost] {
        let (server, one, two) = setup().await;
        let (one_mutex, two_mutex) = (mutex(&one), mutex(&two));
        let guard = acquired(&one_mutex).await;
        let mut waiting = Box::pin(two_mutex.acquire());
        still_pending("the lock is held", &mut waiting).await;
        server.stop();
        within("it is told", T, guard.lost()).await;
        still_pending("no server", &mut waiting).await;
        server.restart(data);
        if data == Data::Lost {
            make_directory(&server);
        }
        drop(guard);
        released(within("it is its turn", T * 3, waiting).await.expect("held")).await;
        released(within("and the other's again", T * 3, one_mutex.acquire()).await.expect("held")).await;
    }
}
