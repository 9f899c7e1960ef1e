//! Futures and latches dropped at every point: no node stays behind, and no watch, as the server counts them. Every
//! poll is met by `tests/cancellation`.

use zookeeper_recipes::leader_latch::LeaderLatch;

use super::fixture::{Fixture, SOON, leads, nothing_is_left, polled, reaches, waits, watches};
use crate::support::{eventually, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_dropped_at_any_poll_with_its_latch_leaves_nothing() {
    let fixture = Fixture::with_directory("wait").await;
    let client = fixture.client().await;
    let mut completed = 0;
    for times in 0..8 {
        let latch = fixture.latch(&client, "cancelled");
        if polled(times, latch.wait_for_leadership()).await.is_some() {
            completed += 1;
            // The count of watches is worth something.
            eventually("a leader watches its node", SOON, || async { watches(&fixture, &client).await == 1 }).await;
        }
        drop(latch);
        nothing_is_left(&fixture, &client, 0, &format!("dropped after {times} polls")).await;
    }
    assert!(completed > 0, "polled often enough, it completes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_behind_a_leader_that_is_dropped_at_any_poll_leaves_nothing_and_promotes_no_participant() {
    let fixture = Fixture::with_directory("behind").await;
    let (client, other) = (fixture.client().await, fixture.client().await);
    let leader = fixture.latch(&other, "leader");
    let leadership = leads(&leader).await;
    for times in 0..5 {
        let latch = fixture.latch(&client, "cancelled");
        assert!(polled(times, latch.wait_for_leadership()).await.is_none());
        drop(latch);
        nothing_is_left(&fixture, &client, 1, &format!("dropped after {times} polls")).await;
        assert!(leadership.is_held());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_dropped_while_the_leadership_comes_to_it_passes_it_on() {
    let fixture = Fixture::with_directory("handover").await;
    let (client, other) = (fixture.client().await, fixture.client().await);
    for yields in 0..20 {
        let leader = fixture.latch(&other, "leader");
        leads(&leader).await;
        let dropped = fixture.latch(&client, "dropped");
        waits(&dropped).await;
        let next = fixture.latch(&other, "next");
        waits(&next).await;
        let closing = leader.close();
        let dropping = async {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            drop(dropped);
        };
        tokio::join!(closing, dropping).0.expect("closed");
        leads(&next).await;
        nothing_is_left(&fixture, &client, 1, &format!("dropped after {yields} yields")).await;
        next.close().await.expect("closed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_dropped_at_any_moment_of_its_start_leaves_nothing() {
    let fixture = Fixture::with_directory("start").await;
    let client = fixture.client().await;
    for yields in 0..60 {
        let creates = client.request_counts().creates;
        let latch = fixture.latch(&client, "dropped");
        // Half of them count from when the create was handed over, as the start of the latch's task is unknown.
        while yields % 2 == 1 && client.request_counts().creates == creates {
            tokio::task::yield_now().await;
        }
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        drop(latch);
        nothing_is_left(&fixture, &client, 0, &format!("dropped after {yields} yields")).await;
    }
    assert!(client.request_counts().deletes > 0, "some had a node to delete");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_is_carried_out_once_it_was_polled_and_not_before() {
    let fixture = Fixture::with_directory("close").await;
    let client = fixture.client().await;
    let mut completed = 0;
    for times in 0..6 {
        let latch: LeaderLatch = fixture.latch(&client, "closing");
        let leadership = leads(&latch).await;
        if polled(times, latch.close()).await.is_some() {
            completed += 1;
        }
        // The latch itself stays open.
        if times == 0 {
            assert!(leadership.is_held() && latch.has_leadership());
            latch.close().await.expect("closed");
        }
        nothing_is_left(&fixture, &client, 0, &format!("close dropped after {times} polls")).await;
        reaches(&latch, zookeeper_recipes::leader_latch::LatchStatus::Closed).await;
        within("another close ends too", SOON, latch.close()).await.expect("closed");
    }
    assert!(completed > 0, "polled often enough, it completes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_observation_leaves_no_watch() {
    let fixture = Fixture::with_directory("observe").await;
    let (client, other) = (fixture.client().await, fixture.client().await);
    let leader = fixture.latch(&other, "leader");
    leads(&leader).await;
    for times in 0..8 {
        let mut leaders = zookeeper_recipes::leader_latch::observe_leader(&client, &fixture.path).expect("a good path");
        let seen = polled(times, async {
            use futures::StreamExt;
            leaders.next().await;
            leaders.next().await
        })
        .await;
        assert!(seen.is_none(), "only one leader to see");
        drop(leaders);
        nothing_is_left(&fixture, &client, 1, &format!("dropped after {times} polls")).await;
    }
}
