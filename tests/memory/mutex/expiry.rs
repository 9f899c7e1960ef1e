//! The session ends: while waiting, while holding, again and again.

use zookeeper_recipes::mutex::Error;
use zookeeper_recipes::{ConnectionState, ErrorKind};

use super::fixture::{acquired, line, line_has, mutex, released, setup};
use crate::fixture::{T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_holder_whose_session_ends_knows_before_the_next_one_holds() {
    let (server, one, two) = setup().await;
    let (one_mutex, two_mutex) = (mutex(&one), mutex(&two));
    let guard = acquired(&one_mutex).await;
    let mut waiting = Box::pin(two_mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    // Silence, so that nothing but the clock can tell the holder.
    server.black_hole(&one);
    let next = {
        let mut waiting = waiting;
        loop {
            let took = tokio::time::timeout(std::time::Duration::from_millis(1), &mut waiting).await;
            if let Ok(next) = took {
                assert!(!guard.is_held(), "two hold");
                break next.expect("held");
            }
        }
    };
    assert!(next.fencing_token() > guard.fencing_token());
    server.heal();
    within("it is told", T, guard.lost()).await;
    assert!(!guard.is_held() && next.is_held());
    let error = within("release", T * 2, guard.release()).await.expect_err("the lock was lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(error.is_lost() && !error.is_retryable());
    assert!(next.is_held());
    assert_eq!(line(&server).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lock_that_is_lost_is_dropped() {
    let (server, client, _) = setup().await;
    let guard = acquired(&mutex(&client)).await;
    let work = guard.run(async {
        server.expire_session(&client);
        std::future::pending::<()>().await;
    });
    let error = within("the work ends", T, work).await.expect_err("lost");
    assert_eq!(error.to_string(), "the lock was lost");
    assert!(!guard.is_held());
    assert_eq!(guard.run(async {}).await, Err(error), "a lost guard runs nothing");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_ends_takes_a_new_place_and_gets_the_lock() {
    let (server, one, two) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    let mutex = mutex(&two);
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    for _ in 0..5 {
        let before = line(&server);
        assert!(server.expire_session(&two));
        assert!(tokio::time::timeout(T, &mut waiting).await.is_err(), "the lock is held");
        let after = line(&server);
        assert_eq!((before.len(), after.len()), (2, 2));
        assert_eq!(before[0], after[0]);
        assert_ne!(before[1], after[1], "a new place");
    }
    assert!(guard.is_held());
    released(guard).await;
    let next = within("it is its turn", T, waiting).await.expect("held");
    released(next).await;
    assert!(line(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_acquired_again_after_its_session_and_the_token_grows() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    let mut last = 0;
    for _ in 0..5 {
        let guard = within("acquired", T, mutex.acquire()).await.expect("held");
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        server.expire_session(&client);
        within("it is told", T, guard.lost()).await;
        drop(guard);
    }
    line_has(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_receives_no_event_stops_being_held_by_its_own_clock() {
    let (server, client, _) = setup().await;
    let guard = acquired(&mutex(&client)).await;
    let mut states = client.connection_states();
    server.expire_session(&client);
    within("the client knows", T, async {
        use futures::StreamExt;
        while states.next().await.expect("open").expect("in time") != ConnectionState::Lost {}
    })
    .await;
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_during_a_release_is_told_as_what_no_repetition_mends() {
    let (server, client, _) = setup().await;
    let guard = acquired(&mutex(&client)).await;
    let fence = guard.fence();
    server.black_hole(&client);
    assert!(guard.is_held());
    let error = within("release", T * 2, guard.release()).await.expect_err("there is no reply");
    assert!(matches!(error, Error::Client { .. }) && error.kind() == ErrorKind::SessionLost, "{error:?}");
    assert!(error.is_lost() && !error.is_retryable());
    server.heal();
    let late = client.transaction().check(&fence).set_data("/locks", "late", None).commit().await;
    let error = late.expect_err("the session of the fence is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(error.is_lost() && !error.is_retryable());
}
