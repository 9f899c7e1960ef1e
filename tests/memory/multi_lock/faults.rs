//! Connections, sessions, replies and nodes that are lost, while holding and while waiting.

use zookeeper_recipes::multi_lock::Error;
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::{PATHS, acquired, lines, lines_have, locks, mutex, setup};
use crate::fixture::{SOON, T, client_with, polled, still_pending, within};

#[tokio::test(start_paused = true)]
async fn all_are_lost_with_the_connection_under_the_standard_policy_and_kept_under_the_session_policy() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let (server, _) = setup::<0>().await;
        let client = client_with(&server, policy).await;
        let guard = acquired(&client).await;
        server.disconnect(&client);
        tokio::time::sleep(SOON).await;
        let keeps = policy == ErrorPolicy::Session;
        assert_eq!(guard.is_held(), keeps);
        assert_eq!(lines(&server), [1, 1, 1]);
        let released = guard.release().await;
        assert_eq!(released.is_ok(), keeps, "{released:?}");
        assert_eq!(lines(&server), [0, 0, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn all_are_lost_with_the_session() {
    let (server, [one, two]) = setup().await;
    let guard = acquired(&one).await;
    server.expire_session(&one);
    within("it is told", SOON, guard.lost()).await;
    assert!(!guard.is_held());
    let other = acquired(&two).await;
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    assert!(other.is_held());
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_and_loses_what_it_has_lets_go_and_begins_again() {
    let (server, [one, two]) = setup().await;
    let last = mutex(&two, PATHS[2]).acquire().await.expect("held");
    let locks = locks(&one);
    let mut waiting = Box::pin(locks.acquire());
    still_pending("the last is held", &mut waiting).await;
    assert_eq!(lines(&server), [1, 1, 2]);
    let before = server.children(PATHS[0]);
    server.disconnect(&one);
    still_pending("the last is held", &mut waiting).await;
    assert_eq!(lines(&server), [1, 1, 2], "it has begun again");
    assert_ne!(server.children(PATHS[0]), before, "with new nodes");
    server.expire_session(&one);
    still_pending("the last is held", &mut waiting).await;
    assert_eq!(lines(&server), [1, 1, 2], "it has begun again");
    last.release().await.expect("it was held");
    let guard = within("all are free", SOON, waiting).await.expect("held");
    assert!(guard.is_held());
    assert_eq!(lines(&server), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_without_a_connection_does_not_keep_the_locks_that_it_has() {
    let (server, [one, two]) = setup().await;
    let last = mutex(&two, PATHS[2]).acquire().await.expect("held");
    let locks = locks(&one);
    let mut waiting = Box::pin(locks.acquire());
    still_pending("the last is held", &mut waiting).await;
    server.refuse(&one);
    server.disconnect(&one);
    let _ = tokio::time::timeout(T * 2, &mut waiting).await;
    let first = within("its session is over", T, mutex(&two, PATHS[0]).acquire()).await.expect("held");
    server.heal();
    drop((first, last));
    drop(within("all are free", T, waiting).await.expect("held"));
    lines_have(&server, [0, 0, 0]).await;
}

#[tokio::test(start_paused = true)]
async fn each_lost_reply_ends_with_all_locks_or_none() {
    for operation in [Operation::Create, Operation::List] {
        for loss in [Loss::Applied, Loss::NotApplied] {
            for before in [PATHS[0], PATHS[1]] {
                let (server, [one, two]) = setup().await;
                // It waits at the lock before the one whose reply is lost.
                let held = mutex(&two, before).acquire().await.expect("held");
                let locks = locks(&one);
                let mut waiting = Box::pin(locks.acquire());
                still_pending("one is held", &mut waiting).await;
                server.lose_next_reply(&one, operation, loss);
                held.release().await.expect("it was held");
                let guard = within("all are free", T, waiting).await.expect("held");
                assert!(guard.is_held());
                assert_eq!(server.lost_replies(), 1, "{operation:?} {loss:?} {before}");
                assert_eq!(lines(&server), [1, 1, 1], "{operation:?} {loss:?} {before}");
                server.lose_next_reply(&one, Operation::Delete, loss);
                drop(guard);
                lines_have(&server, [0, 0, 0]).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_may_not_be_acquired_costs_the_others() {
    let (server, [one, two]) = setup().await;
    server.deny(PATHS[1]);
    let error = within("it fails", SOON, locks(&one).acquire()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert!(error.to_string().contains(PATHS[1]), "{error}");
    let first = within("the first is free again", SOON, mutex(&two, PATHS[0]).acquire()).await.expect("held");
    first.release().await.expect("it was held");
    server.allow(PATHS[1]);
    drop(within("all are free", T * 4, locks(&one).acquire()).await.expect("held"));
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_poll_leaves_nothing() {
    for polls in 0..16 {
        let (server, [one]) = setup().await;
        drop(polled(polls, locks(&one).acquire()).await);
        lines_have(&server, [0, 0, 0]).await;
        tokio::time::sleep(SOON).await;
        assert_eq!(server.watches(), 0);
        let guard = acquired(&one).await;
        drop(polled(polls, guard.release()).await);
        lines_have(&server, [0, 0, 0]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_wakes_without_the_locks() {
    let (server, [one, two]) = setup().await;
    let guard = acquired(&one).await;
    server.freeze_client(&one);
    let other = within("the others are free", T * 3, locks(&two).acquire()).await.expect("held");
    assert!(!guard.is_held());
    server.thaw_client(&one);
    assert!(!guard.is_held() && other.is_held());
    drop(guard);
    assert!(other.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_timed_call_that_loses_what_it_has_begins_again_while_there_is_time() {
    for expires in [true, false] {
        let (server, [one, two]) = setup().await;
        let last = mutex(&two, PATHS[2]).acquire().await.expect("held");
        let locks = locks(&one);
        let mut waiting = Box::pin(locks.acquire_timeout(T * 6));
        still_pending("the last is held", &mut waiting).await;
        if expires {
            server.expire_session(&one);
        } else {
            server.disconnect(&one);
        }
        still_pending("the last is held", &mut waiting).await;
        assert_eq!(lines(&server), [1, 1, 2], "it has begun again");
        last.release().await.expect("it was held");
        let guard = within("all are free", SOON, waiting).await.expect("an answer").expect("they are free");
        assert!(guard.is_held());
        assert_eq!(lines(&server), [1, 1, 1]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timed_call_that_lost_what_it_had_says_none_only_if_nothing_is_left() {
    for loses in 0..8 {
        let (server, [one, two]) = setup().await;
        let _last = mutex(&two, PATHS[2]).acquire().await.expect("held");
        let locks = locks(&one);
        let mut waiting = Box::pin(locks.acquire_timeout(T * 2));
        still_pending("the last is held", &mut waiting).await;
        // By chance one of its deletes is not answered.
        if loses % 2 == 0 {
            server.lose_next_reply(&one, Operation::Delete, Loss::NotApplied);
        }
        server.disconnect(&one);
        tokio::time::sleep(SOON * loses / 4).await;
        match within("an answer", T * 3, waiting).await {
            Ok(None) => assert_eq!(lines(&server), [0, 0, 1]),
            Err(error) => assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::TimedOut), "{error}"),
            Ok(Some(guard)) => panic!("{guard:?}"),
        }
        lines_have(&server, [0, 0, 1]).await;
    }
}
