//! Every future of a mutex dropped at every poll: no node and no watch is left, and nobody waits for what is not there.

use std::time::Duration;

use super::scene::{PATH, acquired, mutex, released, scene};
use crate::in_memory::{SOON, T, nothing_is_left, polled, still_pending};

#[tokio::test(start_paused = true)]
async fn an_acquire_of_a_free_lock_dropped_at_any_poll() {
    let mut completed = 0;
    for times in 0..12 {
        let (server, client, _) = scene().await;
        let mutex = mutex(&client);
        let acquired = polled(times, mutex.acquire()).await;
        completed += usize::from(acquired.is_some());
        drop(acquired);
        nothing_is_left(&server, PATH, 0, 0, &format!("after {times} polls")).await;
    }
    assert!(completed > 0, "polled often enough, it completes");
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_waits_dropped_at_any_poll() {
    for times in 0..16 {
        let (server, one, two) = scene().await;
        let held = acquired(&mutex(&one)).await;
        let mutex = mutex(&two);
        assert!(polled(times, mutex.acquire()).await.is_none());
        nothing_is_left(&server, PATH, 1, 0, &format!("after {times} polls")).await;
        assert!(held.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_moment_of_a_hand_over_passes_the_lock_on() {
    for millis in 0..12 {
        let (server, one, two) = scene().await;
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
async fn a_timed_acquire_dropped_at_any_poll() {
    for times in 0..24 {
        let (server, one, two) = scene().await;
        let _held = acquired(&mutex(&one)).await;
        let mutex = mutex(&two);
        let tried = polled(times, mutex.acquire_timeout(Duration::from_millis(800))).await;
        assert!(tried.is_none_or(|tried| tried.is_ok_and(|guard| guard.is_none())));
        nothing_is_left(&server, PATH, 1, 0, &format!("after {times} polls")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_dropped_at_any_poll() {
    for free in [true, false] {
        for times in 0..16 {
            let (server, one, two) = scene().await;
            let held = if free { None } else { Some(acquired(&mutex(&one)).await) };
            let mutex = mutex(&two);
            drop(polled(times, mutex.try_acquire()).await);
            let others = usize::from(held.is_some());
            nothing_is_left(&server, PATH, others, 0, &format!("after {times} polls")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_dropped_at_any_poll_is_a_release() {
    for watched in [true, false] {
        let mut completed = 0;
        for times in 0..8 {
            let (server, client, other) = scene().await;
            let guard = acquired(&mutex(&client)).await;
            if watched {
                guard.run(tokio::time::sleep(SOON)).await.expect("held");
            }
            completed += usize::from(polled(times, guard.release()).await.is_some());
            nothing_is_left(&server, PATH, 0, 0, &format!("after {times} polls")).await;
            released(acquired(&mutex(&other)).await).await;
        }
        assert!(completed > 0, "polled often enough, it completes");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_loss_or_a_revocation_dropped_at_any_poll_change_nothing() {
    for times in 0..6 {
        let (server, client, _) = scene().await;
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
async fn an_acquire_that_is_kept_but_not_polled_holds_up_nobody_longer_than_it_lives() {
    let (server, one, two) = scene().await;
    let (one_mutex, two_mutex) = (mutex(&one), mutex(&two));
    let held = acquired(&one_mutex).await;
    let mut kept = Box::pin(two_mutex.acquire());
    still_pending("the lock is held", &mut kept).await;
    let mut next = Box::pin(one_mutex.acquire());
    still_pending("the lock is held", &mut next).await;
    released(held).await;
    // Its turn has come, and it does not look.
    still_pending("somebody is before it", &mut next).await;
    // Its session goes on being kept, so it can still take its turn.
    tokio::time::sleep(T * 3).await;
    let kept = kept.await.expect("held");
    assert!(kept.is_held());
    drop(kept);
    released(next.await.expect("held")).await;
    nothing_is_left(&server, PATH, 0, 0, "in the end").await;
}
