//! The single barrier: the cases of Curator's tests, and the outcome of waits.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::barrier::Barrier;

use crate::fixture::{Fixture, SOON, still_pending, watches};
use crate::support::{eventually, within};

/// Curator's testBasic and testMultiClient.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_client_two_wait_and_a_third_removes() {
    let fixture = Fixture::new("basic").await;
    let clients = join_all((0..3).map(|_| fixture.client())).await;
    let barriers: Vec<_> =
        clients.iter().map(|client| Barrier::new(client, fixture.path.clone()).expect("a good path")).collect();
    barriers[0].set().await.expect("set");
    assert!(!barriers[1].wait_timeout(Duration::from_millis(10)).await.unwrap_or(false), "the barrier is set");
    let mut waits = Box::pin(join_all(barriers[1..].iter().map(Barrier::wait)));
    still_pending("the barrier is set", &mut waits).await;
    barriers[0].remove().await.expect("removed");
    assert!(within("both waiters return", SOON, waits).await.iter().all(Result::is_ok));
}

/// Curator's testNoBarrier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_barrier_both_waits_return_at_once() {
    let fixture = Fixture::new("none").await;
    let barrier = Barrier::new(&fixture.client().await, fixture.path.clone()).expect("a good path");
    within("there is none", SOON, barrier.wait()).await.expect("an answer");
    assert!(barrier.wait_timeout(SOON).await.expect("an answer"));
}

/// Curator's testServerCrash, whose waiter gets an error; ours waits on, also for a new session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_crash_and_a_killed_session_are_waited_out() {
    let fixture = Fixture::new("crash").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(3), ErrorPolicy::Standard).await;
    let barrier = Barrier::new(&client, fixture.path.clone()).expect("a good path");
    barrier.set().await.expect("set");
    let mut waits = Box::pin(barrier.wait());
    still_pending("the barrier is set", &mut waits).await;
    for killed in [false, true] {
        if killed {
            proxy.kill_session().await;
        }
        proxy.cut().await;
        still_pending("the barrier is set", &mut waits).await;
    }
    Barrier::new(&fixture.client().await, fixture.path.clone()).expect("good").remove().await.expect("removed");
    within("it hears of it", SOON, waits).await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_runs_out_of_time_leaves_no_watch() {
    let fixture = Fixture::new("watch").await;
    let client = fixture.client().await;
    let barrier = Barrier::new(&client, fixture.path.clone()).expect("a good path");
    barrier.set().await.expect("set");
    for _ in 0..3 {
        assert!(!barrier.wait_timeout(Duration::from_millis(500)).await.expect("an answer"), "the barrier is set");
    }
    eventually("no watch is left", SOON, || async { watches(&fixture, &client).await == 0 }).await;
    barrier.remove().await.expect("removed");
}
