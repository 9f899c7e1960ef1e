//! The double barrier: the cases of Curator's tests, and rounds after each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;

use super::fixture::{Fixture, SOON, enter_all, leave_all, member, members, nothing_is_left, still_pending};
use crate::support::within;

/// Curator's testMultiClient and testBasic, a hundred times over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_client_five_enter_and_leave_together_round_after_round() {
    const ROUNDS: usize = 100;
    for shared in [false, true] {
        let fixture = Fixture::with_directory("multi").await;
        let client = fixture.client().await;
        let all = match shared {
            true => (0..5).map(|_| member(&client, &fixture.path, 5)).collect(),
            false => members(&fixture, 5, 5).await,
        };
        let inside: Arc<[AtomicUsize]> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
        let tasks = all.into_iter().map(|barrier| {
            let inside = Arc::clone(&inside);
            tokio::spawn(async move {
                for round in inside.iter() {
                    barrier.enter().await.expect("entered");
                    round.fetch_add(1, Ordering::SeqCst);
                    barrier.leave().await.expect("left");
                    assert_eq!(round.load(Ordering::SeqCst), 5, "all were in, so all have left");
                }
            })
        });
        for task in within("all rounds", SOON * 3, join_all(tasks)).await {
            task.expect("no panic");
        }
        nothing_is_left(&fixture, &client, 0, "afterwards").await;
    }
}

/// Curator's testSpuriousWakeup: whatever wakes it, one of two alone waits on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spurious_wakeup_one_of_two_waits_on() {
    let fixture = Fixture::with_directory("spurious").await;
    let (proxy, client) =
        fixture.client_behind_proxy(Duration::from_secs(10), zookeeper_recipes::ErrorPolicy::Standard).await;
    let one = member(&client, &fixture.path, 2);
    let two = member(&fixture.client().await, &fixture.path, 2);
    let mut entering = Box::pin(one.enter());
    still_pending("one of two", &mut entering).await;
    for _ in 0..3 {
        // New connections, writes to its node and others': nothing of that is a member.
        proxy.cut().await;
        still_pending("one of two", &mut entering).await;
        for name in fixture.nodes().await {
            fixture.observer.set_data(&format!("{}/{name}", fixture.path), b"hello").await;
        }
        still_pending("one of two", &mut entering).await;
    }
    let (one_in, two_in) = within("both", SOON, async { tokio::join!(entering, two.enter()) }).await;
    one_in.expect("in");
    two_in.expect("in");
    leave_all(&[one, two]).await;
    assert!(fixture.nodes().await.is_empty());
}

/// Curator's testOverSubscribed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_subscribed_six_pass_a_barrier_for_five() {
    let fixture = Fixture::with_directory("over").await;
    let all = members(&fixture, 6, 5).await;
    for _ in 0..20 {
        enter_all(&all).await;
        leave_all(&all).await;
    }
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_out_is_false_and_leaves_nothing_and_a_stale_ready_opens_nothing() {
    let fixture = Fixture::with_directory("timeout").await;
    fixture.observer.create(&format!("{}/ready", fixture.path), b"10.0.0.7").await;
    let client = fixture.client().await;
    let one = member(&client, &fixture.path, 2);
    for _ in 0..2 {
        assert!(!one.enter_timeout(Duration::from_secs(2)).await.expect("known"));
        assert!(fixture.nodes().await.is_empty(), "neither a node nor the stale `ready`");
    }
    nothing_is_left(&fixture, &client, 0, "afterwards").await;
    let two = member(&fixture.client().await, &fixture.path, 2);
    let all = [one, two];
    enter_all(&all).await;
    assert!(!all[0].leave_timeout(Duration::from_secs(2)).await.expect("known"), "the other is inside");
    assert_eq!(fixture.nodes().await.len(), 2);
    assert!(within("the last", SOON, all[1].leave_timeout(SOON)).await.expect("known"));
    nothing_is_left(&fixture, &client, 0, "afterwards").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_curator_member_and_ours_meet() {
    let fixture = Fixture::with_directory("curator").await;
    let ours = member(&fixture.client().await, &fixture.path, 2);
    let java = format!("{}/11111111-2222-3333-4444-555555555555", fixture.path);
    // It came first; then it opens, as Curator does when it counts enough.
    fixture.observer.create_ephemeral(&java, b"10.0.0.7").await;
    within("both are there", SOON, ours.enter()).await.expect("in");
    let mut leaving = Box::pin(ours.leave());
    still_pending("Curator's is inside", &mut leaving).await;
    fixture.observer.delete(&java).await;
    within("both have left", SOON, leaving).await.expect("out");
    let mut entering = Box::pin(ours.enter());
    still_pending("alone", &mut entering).await;
    fixture.observer.create(&format!("{}/ready", fixture.path), b"10.0.0.7").await;
    within("Curator has opened", SOON, entering).await.expect("in");
    within("alone", SOON, ours.leave()).await.expect("out");
    assert!(fixture.nodes().await.is_empty());
}
