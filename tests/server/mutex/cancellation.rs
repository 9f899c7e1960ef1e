//! Futures dropped at every poll: no node and no watch stays behind.

use super::fixture::{Fixture, SOON, acquired, mutex, nothing_is_left, polled, released};
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_at_any_poll_leaves_nothing() {
    let fixture = Fixture::with_directory("acquire").await;
    let (client, other) = (fixture.client().await, fixture.client().await);
    let lock = mutex(&client, &fixture.path);
    let mut completed = 0;
    for held in [false, true] {
        let held = if held { Some(acquired(&mutex(&other, &fixture.path)).await) } else { None };
        for times in 0..8 {
            if let Some(guard) = polled(times, lock.acquire()).await {
                assert!(held.is_none());
                completed += 1;
                drop(guard);
            }
            let others = usize::from(held.is_some());
            nothing_is_left(&fixture, &client, others, &format!("acquire dropped after {times} polls")).await;
        }
    }
    assert!(completed > 0, "polled often enough, it completes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_and_a_timed_acquire_dropped_at_any_poll_leave_nothing() {
    let fixture = Fixture::with_directory("try").await;
    let (client, other) = (fixture.client().await, fixture.client().await);
    let held = acquired(&mutex(&other, &fixture.path)).await;
    let lock = mutex(&client, &fixture.path);
    for times in 0..8 {
        drop(polled(times, lock.try_acquire()).await);
        nothing_is_left(&fixture, &client, 1, &format!("try dropped after {times} polls")).await;
        drop(polled(times, lock.acquire_timeout(SOON)).await);
        nothing_is_left(&fixture, &client, 1, &format!("timed acquire dropped after {times} polls")).await;
    }
    assert!(held.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_dropped_at_any_poll_is_a_release() {
    let fixture = Fixture::with_directory("release").await;
    let client = fixture.client().await;
    let lock = mutex(&client, &fixture.path);
    for watched in [false, true] {
        for times in 0..5 {
            let guard = acquired(&lock).await;
            if watched {
                guard.run(async {}).await.expect("held");
            }
            drop(polled(times, guard.release()).await);
            nothing_is_left(&fixture, &client, 0, &format!("release dropped after {times} polls")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_while_the_lock_comes_to_it_passes_it_on() {
    let fixture = Fixture::with_directory("handover").await;
    let (client, other) = (fixture.client().await, fixture.client().await);
    let (lock, others) = (mutex(&client, &fixture.path), mutex(&other, &fixture.path));
    for yields in 0..20 {
        let held = acquired(&others).await;
        let dropped = {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        };
        fixture.observer.wait_for_children(&fixture.path, 2).await;
        let releasing = held.release();
        let dropping = async {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            dropped.abort();
        };
        tokio::join!(releasing, dropping).0.expect("released");
        drop(dropped);
        released(within("the next one holds", SOON, others.acquire()).await.expect("held")).await;
        nothing_is_left(&fixture, &client, 0, &format!("dropped after {yields} yields")).await;
    }
}
