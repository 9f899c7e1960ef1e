//! Futures of a double barrier that are dropped, or not polled, beside others: nothing is left, and none waits for what
//! is not there. Each future dropped at each poll is in `tests/cancellation`.

use std::time::Duration;

use futures::future::maybe_done;

use super::fixture::{LIMIT, PATH, enter_all, leave_all, members, nodes, setup, soon};
use crate::fixture::{SOON, nothing_is_left, polled, still_pending, within};

#[tokio::test(start_paused = true)]
async fn an_enter_dropped_at_any_moment_while_the_round_opens_leaves_nothing_and_the_others_can_leave() {
    for millis in 0..12 {
        let (server, clients) = setup(2).await;
        let all = members(&clients, 2);
        let mut dropped = Box::pin(all[0].enter());
        still_pending("alone", &mut dropped).await;
        let mut other = Box::pin(maybe_done(all[1].enter_timeout(LIMIT)));
        let both = async { tokio::join!(&mut dropped, &mut other) };
        let both = tokio::time::timeout(Duration::from_millis(millis), both).await;
        drop(dropped);
        if both.is_err() {
            // Counted or not, it is outside now.
            other.as_mut().await;
            if other.as_mut().take_output().expect("an outcome").expect("known") {
                within("alone", SOON, all[1].leave()).await.expect("out");
            }
        } else {
            leave_all(&all).await;
        }
        nothing_is_left(&server, PATH, 0, 0, &format!("after {millis} ms")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_enter_is_not_counted_beside_the_next_one_of_the_same_object() {
    for times in 0..6 {
        let (server, clients) = setup(1).await;
        let all = members(&clients, 2);
        assert!(polled(times, all[0].enter()).await.is_none());
        // At once, while the first is being seen to.
        assert!(!all[0].enter_timeout(LIMIT).await.expect("known"), "after {times} polls: alone, though twice");
        assert!(nodes(&server).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leave_dropped_at_any_poll_is_a_leave() {
    for limited in [true, false] {
        for times in 0..8 {
            let (server, clients) = setup(2).await;
            let all = members(&clients, 2);
            enter_all(&all).await;
            if limited {
                assert!(polled(times, all[0].leave_timeout(LIMIT)).await.is_none());
            } else {
                assert!(polled(times, all[0].leave()).await.is_none());
            }
            if times == 0 {
                // It never began, so the member is inside.
                assert_eq!(nodes(&server).len(), 2);
                leave_all(&all).await;
            } else {
                assert!(soon("it has left", all[1].leave_timeout(LIMIT)).await);
            }
            nothing_is_left(&server, PATH, 0, 0, &format!("after {times} polls")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_leave_dropped_at_any_moment_leaves_nothing() {
    for millis in 0..10 {
        let (server, clients) = setup(1).await;
        let all = members(&clients, 1);
        enter_all(&all).await;
        let _ = tokio::time::timeout(Duration::from_millis(millis), all[0].leave()).await;
        nothing_is_left(&server, PATH, 0, 0, &format!("after {millis} ms")).await;
        enter_all(&all).await;
        leave_all(&all).await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_kept_but_not_polled_delay_no_other_member() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    let mut kept = Box::pin(all[0].enter());
    still_pending("alone", &mut kept).await;
    within("both are there", SOON, all[1].enter()).await.expect("in");
    kept.await.expect("in");
    let mut kept = Box::pin(all[0].leave());
    still_pending("the other is inside", &mut kept).await;
    within("both leave", SOON, all[1].leave()).await.expect("out");
    kept.await.expect("out");
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}
