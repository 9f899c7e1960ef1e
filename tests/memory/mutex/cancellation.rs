//! Futures of a mutex that are dropped, or not polled, beside others: no node and no watch is left, and none waits for
//! what is not there. Each future dropped at each poll is in `tests/cancellation`.

use std::time::Duration;

use super::fixture::{PATH, acquired, mutex, released, setup};
use crate::fixture::{SOON, T, nothing_is_left, polled, still_pending};

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_moment_of_a_hand_over_passes_the_lock_on() {
    for millis in 0..12 {
        let (server, one, two) = setup().await;
        let held = acquired(&mutex(&one)).await;
        let (mutex_one, mutex_two) = (mutex(&one), mutex(&two));
        let mut dropped = Box::pin(mutex_two.acquire());
        still_pending("the lock is held", &mut dropped).await;
        let mut next = Box::pin(mutex_one.acquire());
        still_pending("the lock is held", &mut next).await;
        drop(held);
        let ended = tokio::time::timeout(Duration::from_millis(millis), &mut dropped).await;
        drop((ended, dropped));
        released(next.await.expect("held")).await;
        nothing_is_left(&server, PATH, 0, 0, &format!("after {millis} ms")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_loss_or_a_revocation_dropped_at_any_poll_change_nothing() {
    for times in 0..6 {
        let (server, client, _) = setup().await;
        let guard = acquired(&mutex(&client)).await;
        assert!(polled(times, guard.lost()).await.is_none());
        assert!(polled(times, guard.on_revoke()).await.is_none());
        assert!(polled(times, guard.run(std::future::pending::<()>())).await.is_none());
        assert!(guard.is_held());
        // One that is dropped in between does not leave the others without news.
        let mut dropped = Box::pin(guard.lost());
        still_pending("held", &mut dropped).await;
        let waiting = guard.lost();
        drop(dropped);
        server.delete_by_hand(guard.node_path()).expect("it exists");
        tokio::time::timeout(SOON, waiting).await.expect("told");
        drop(guard);
        nothing_is_left(&server, PATH, 0, 0, &format!("after {times} polls")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_kept_but_not_polled_delays_no_waiter_after_it_is_dropped() {
    let (server, one, two) = setup().await;
    let (one_mutex, two_mutex) = (mutex(&one), mutex(&two));
    let held = acquired(&one_mutex).await;
    let mut kept = Box::pin(two_mutex.acquire());
    still_pending("the lock is held", &mut kept).await;
    let mut next = Box::pin(one_mutex.acquire());
    still_pending("the lock is held", &mut next).await;
    released(held).await;
    // Its turn has come, and it does not look.
    still_pending("another waiter is before it", &mut next).await;
    // Its session is kept alive, so it can still take its turn.
    tokio::time::sleep(T * 3).await;
    let kept = kept.await.expect("held");
    assert!(kept.is_held());
    drop(kept);
    released(next.await.expect("held")).await;
    nothing_is_left(&server, PATH, 0, 0, "in the end").await;
}
