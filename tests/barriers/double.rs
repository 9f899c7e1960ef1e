//! The double barrier: what Curator's tests cover, and rounds after each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;

use super::words::{SOON, Scene, enter_all, goes_on, leave_all, member, members, nothing_is_left};
use crate::support::within;

/// Curator's testMultiClient and testBasic, a hundred times over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_client_five_enter_and_leave_together_round_after_round() {
    const ROUNDS: usize = 100;
    for shared in [false, true] {
        let scene = Scene::with_directory("multi").await;
        let client = scene.client().await;
        let all = match shared {
            true => (0..5).map(|_| member(&client, &scene.path, 5)).collect(),
            false => members(&scene, 5, 5).await,
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
        nothing_is_left(&scene, &client, 0, "afterwards").await;
    }
}

/// Curator's testSpuriousWakeup: whatever wakes it, one of two alone waits on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spurious_wakeup_one_of_two_waits_on() {
    let scene = Scene::with_directory("spurious").await;
    let (proxy, client) =
        scene.client_behind_proxy(Duration::from_secs(10), zookeeper_recipes::ErrorPolicy::Standard).await;
    let one = member(&client, &scene.path, 2);
    let two = member(&scene.client().await, &scene.path, 2);
    let mut entering = Box::pin(one.enter());
    goes_on("one of two", &mut entering).await;
    for _ in 0..3 {
        // New connections, writes to its node and others': nothing of that is a member.
        proxy.cut().await;
        goes_on("one of two", &mut entering).await;
        for name in scene.nodes().await {
            scene.observer.set_data(&format!("{}/{name}", scene.path), b"hello").await;
        }
        goes_on("one of two", &mut entering).await;
    }
    let (one_in, two_in) = within("both", SOON, async { tokio::join!(entering, two.enter()) }).await;
    one_in.expect("in");
    two_in.expect("in");
    leave_all(&[one, two]).await;
    assert!(scene.nodes().await.is_empty());
}

/// Curator's testOverSubscribed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_subscribed_six_pass_a_barrier_for_five() {
    let scene = Scene::with_directory("over").await;
    let all = members(&scene, 6, 5).await;
    for _ in 0..20 {
        enter_all(&all).await;
        leave_all(&all).await;
    }
    assert!(scene.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_before_all_are_there_nor_leaves_before_all_are_done() {
    let scene = Scene::with_directory("early").await;
    let all = members(&scene, 3, 3).await;
    let mut two = Box::pin(async { tokio::join!(all[0].enter(), all[1].enter()) });
    goes_on("two of three", &mut two).await;
    let entered = within("three", SOON, async { tokio::join!(two, all[2].enter()) }).await;
    entered.0.0.expect("in");
    entered.0.1.expect("in");
    entered.1.expect("in");
    assert!(scene.observer.exists(&format!("{}/ready", scene.path)).await);
    let mut two = Box::pin(async { tokio::join!(all[0].leave(), all[1].leave()) });
    goes_on("the third is inside", &mut two).await;
    let left = within("three", SOON, async { tokio::join!(two, all[2].leave()) }).await;
    left.0.0.expect("out");
    left.0.1.expect("out");
    left.1.expect("out");
    assert!(scene.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_out_is_false_and_leaves_nothing_and_a_stale_ready_opens_nothing() {
    let scene = Scene::with_directory("timeout").await;
    scene.observer.create(&format!("{}/ready", scene.path), b"10.0.0.7").await;
    let client = scene.client().await;
    let one = member(&client, &scene.path, 2);
    for _ in 0..2 {
        assert!(!one.enter_timeout(Duration::from_secs(2)).await.expect("known"));
        assert!(scene.nodes().await.is_empty(), "neither a node nor the stale `ready`");
    }
    nothing_is_left(&scene, &client, 0, "afterwards").await;
    let two = member(&scene.client().await, &scene.path, 2);
    let all = [one, two];
    enter_all(&all).await;
    assert!(!all[0].leave_timeout(Duration::from_secs(2)).await.expect("known"), "the other is inside");
    assert_eq!(scene.nodes().await.len(), 2);
    assert!(within("the last", SOON, all[1].leave_timeout(SOON)).await.expect("known"));
    nothing_is_left(&scene, &client, 0, "afterwards").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_curator_member_and_ours_meet() {
    let scene = Scene::with_directory("curator").await;
    let ours = member(&scene.client().await, &scene.path, 2);
    let java = format!("{}/11111111-2222-3333-4444-555555555555", scene.path);
    // It came first; then it opens, as Curator does when it counts enough.
    scene.observer.create_ephemeral(&java, b"10.0.0.7").await;
    within("both are there", SOON, ours.enter()).await.expect("in");
    let mut leaving = Box::pin(ours.leave());
    goes_on("Curator's is inside", &mut leaving).await;
    scene.observer.delete(&java).await;
    within("both have left", SOON, leaving).await.expect("out");
    let mut entering = Box::pin(ours.enter());
    goes_on("alone", &mut entering).await;
    scene.observer.create(&format!("{}/ready", scene.path), b"10.0.0.7").await;
    within("Curator has opened", SOON, entering).await.expect("in");
    within("alone", SOON, ours.leave()).await.expect("out");
    assert!(scene.nodes().await.is_empty());
}
