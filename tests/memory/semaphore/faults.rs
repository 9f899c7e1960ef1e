//! Connections, sessions and replies that are lost, processes that are stopped, and futures that are dropped.

use zookeeper_recipes::semaphore::Error;
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::{CreateMode, ErrorKind, ErrorPolicy};

use super::fixture::{LEASES, acquired, counted, make_count, nodes, nodes_are, released, semaphore, setup};
use crate::fixture::{SOON, T, client_with, polled, still_pending, within};

#[tokio::test(start_paused = true)]
async fn each_lost_reply_ends_with_all_permits_or_none() {
    for operation in [Operation::Create, Operation::List, Operation::GetData, Operation::Delete] {
        for loss in [Loss::Applied, Loss::NotApplied] {
            // Of the first, the second and the third request of this kind.
            for skipped in 0..3 {
                let (server, [one, two]) = setup().await;
                make_count(&server, 3);
                let held = acquired(&counted(&two), 1).await;
                let one_semaphore = counted(&one);
                let acquiring = server.spawn(&one, async move {
                    let guard = one_semaphore.acquire(2).await.expect("held");
                    (guard.is_held(), guard.release().await)
                });
                let sent = |server: &zookeeper_recipes::testing::TestingServer| {
                    crate::fixture::requests(server).into_iter().filter(|of| *of == operation).count()
                };
                server.clear_records();
                let begun = server.until(|| sent(&server) >= skipped);
                let _ = tokio::time::timeout(SOON, begun).await;
                server.lose_next_reply(&one, operation, loss);
                let case = format!("{operation:?} {loss:?} {skipped}");
                let (was_held, released_) = within(&case, T * 3, acquiring).await.expect("no panic");
                assert!(was_held || server.lost_replies() > 0, "{case}");
                // A guard whose connection broke is lost under this policy, and told so.
                assert!(matches!(released_, Ok(()) | Err(Error::Lost { .. })), "{case}: {released_:?}");
                server.heal();
                nodes_are(&server, (0, 1)).await;
                released(acquired(&counted(&one), 2).await).await;
                drop(held);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_reply_is_lost_is_found_again_and_not_made_twice() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, [one, two]) = setup().await;
        let held = acquired(&semaphore(&two, 2), 2).await;
        let one_semaphore = semaphore(&one, 2);
        let mut waiting = Box::pin(one_semaphore.acquire(1));
        // The place in the line first.
        server.clear_records();
        let _ = polled(1, &mut waiting).await;
        server.until(|| nodes(&server).0 == 1).await;
        server.lose_next_reply(&one, Operation::Create, loss);
        let _ = tokio::time::timeout(T, &mut waiting).await;
        assert_eq!(server.lost_replies(), 1, "{loss:?}");
        assert_eq!(nodes(&server), (1, 3), "{loss:?}");
        released(held).await;
        released(within("they are free", T, waiting).await.expect("held")).await;
        nodes_are(&server, (0, 0)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_lost_with_the_connection_under_the_standard_policy_and_kept_under_the_session_policy() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let (server, _) = setup::<0>().await;
        let client = client_with(&server, policy).await;
        let guard = acquired(&semaphore(&client, 2), 2).await;
        server.disconnect(&client);
        tokio::time::sleep(SOON).await;
        let keeps = policy == ErrorPolicy::Session;
        assert_eq!(guard.is_held(), keeps);
        assert_eq!(nodes(&server), (0, 2));
        let released = guard.release().await;
        assert_eq!(released.is_ok(), keeps, "{released:?}");
        assert_eq!(nodes(&server), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_lost_with_the_session_and_go_to_another() {
    let (server, [one, two]) = setup().await;
    let guard = acquired(&semaphore(&one, 1), 1).await;
    let two = semaphore(&two, 1);
    let mut waiting = Box::pin(two.acquire(1));
    still_pending("it is taken", &mut waiting).await;
    server.expire_session(&one);
    within("it is told", SOON, guard.lost()).await;
    assert!(!guard.is_held());
    let other = within("it is free", SOON, waiting).await.expect("held");
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    assert!(other.is_held());
}

#[tokio::test(start_paused = true)]
async fn the_first_that_waits_keeps_its_place_and_its_leases_while_suspended_and_takes_new_ones_in_another_session() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let (server, [one]) = setup().await;
        let client = client_with(&server, policy).await;
        let held = acquired(&semaphore(&one, 2), 2).await;
        let waiter = semaphore(&client, 2);
        let mut waiting = Box::pin(waiter.acquire(2));
        still_pending("they are taken", &mut waiting).await;
        let before = server.children(LEASES);
        for _ in 0..3 {
            server.disconnect(&client);
            still_pending("they are taken", &mut waiting).await;
        }
        assert_eq!(server.children(LEASES), before, "{policy:?}");
        server.expire_session(&client);
        still_pending("they are taken", &mut waiting).await;
        server.until(|| nodes(&server) == (1, 4)).await;
        assert_ne!(server.children(LEASES), before);
        // Released while it has no connection.
        server.refuse(&client);
        server.disconnect(&client);
        released(held).await;
        server.heal();
        let guard = within("they are free", T, waiting).await.expect("held");
        released(guard).await;
        nodes_are(&server, (0, 0)).await;
        tokio::time::sleep(SOON).await;
        assert_eq!(server.watches(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_before_the_lease_is_proven_again() {
    let (server, [one, two]) = setup().await;
    let semaphore_one = semaphore(&one, 1);
    let held = acquired(&semaphore(&two, 1), 1).await;
    let mut waiting = Box::pin(semaphore_one.acquire(1));
    still_pending("it is taken", &mut waiting).await;
    server.black_hole(&one);
    drop(held);
    // Its session ends before it hears of that.
    let _ = tokio::time::timeout(T * 2, &mut waiting).await.expect_err("no server confirms anything");
    let other = within("it is free", SOON, semaphore(&two, 1).acquire(1)).await.expect("held");
    server.heal();
    still_pending("it is taken", &mut waiting).await;
    released(other).await;
    assert!(within("it is free", T, waiting).await.expect("held").is_held());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_wakes_without_the_permits() {
    let (server, [one, two]) = setup().await;
    server.create_by_hand("/result", "", CreateMode::Persistent).expect("a new node");
    let guard = acquired(&semaphore(&one, 2), 2).await;
    let fence = guard.fence();
    server.freeze_client(&one);
    let other = within("they are free", T * 3, semaphore(&two, 2).acquire(2)).await.expect("held");
    assert!(!guard.is_held());
    server.thaw_client(&one);
    assert!(!guard.is_held() && other.is_held());
    let late = one.transaction().check(&fence).set_data("/result", "late", None).commit();
    let error = within("it is refused", T * 3, late).await.expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::Fenced), "{error}");
    drop(guard);
    assert!(other.is_held());
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_poll_leaves_nothing() {
    for taken in [false, true] {
        for polls in 0..16 {
            let (server, [one, two]) = setup().await;
            make_count(&server, 2);
            let held = if taken { Some(acquired(&counted(&two), 1).await) } else { None };
            let others = usize::from(taken);
            nodes_are(&server, (0, others)).await;
            drop(polled(polls, counted(&one).acquire(2)).await);
            nodes_are(&server, (0, others)).await;
            tokio::time::sleep(SOON).await;
            assert_eq!(server.watches(), 0, "{taken} {polls}");
            drop(held);
            nodes_are(&server, (0, 0)).await;
            let guard = acquired(&counted(&one), 2).await;
            drop(polled(polls, guard.release()).await);
            nodes_are(&server, (0, 0)).await;
        }
    }
}
