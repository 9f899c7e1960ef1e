//! The end of a latch that leads: at once, and by one request.

use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::runtime::{Builder, Runtime};
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{CloseMode, LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{PATH, latch, make_directory, reaches};

/// A latch that leads, with its client and its server.
async fn leader() -> (TestingServer, Client, LeaderLatch) {
    let server = TestingServer::start();
    make_directory(&server);
    let client = Client::builder_for_testing(&server).connect().await.expect("a client");
    let leader = latch(&client, "latch");
    reaches(&leader, LatchStatus::Leading).await;
    (server, client, leader)
}

#[tokio::test(start_paused = true)]
async fn a_dropped_latch_leads_no_more_and_its_delete_is_ahead_of_later_requests() {
    let (_server, client, leader) = leader().await;
    let leadership = leader.wait_for_leadership().await.expect("it leads");
    let node = leader.our_path().expect("a node");
    drop(leader);
    // No task has run since.
    assert!(!leadership.is_held());
    assert_eq!(client.exists(&node).await.expect("an answer"), None);
}

#[tokio::test(start_paused = true)]
async fn closing_a_leader_costs_one_request() {
    let (_server, client, leader) = leader().await;
    // Its own node is watched now.
    client.exists("/").await.expect("an answer");
    let before = client.request_counts();
    leader.close().await.expect("closed");
    let after = client.request_counts();
    assert_eq!((after.total() - before.total(), after.deletes - before.deletes), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_drop_ends_a_leadership_at_once_that_is_being_closed_with_a_word_to_listeners() {
    let (_server, client, leader) = leader().await;
    let leadership = leader.wait_for_leadership().await.expect("it leads");
    let node = leader.our_path().expect("a node");
    assert!(leader.close_with(CloseMode::NotifyLeader).now_or_never().is_none());
    assert!(leadership.is_held(), "its task has not run since");
    drop(leader);
    assert!(!leadership.is_held());
    assert_eq!(client.exists(&node).await.expect("an answer"), None);
}

/// On several threads, where the latch's task runs beside its caller.
fn threads() -> (Runtime, TestingServer, Client) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (server, client) = runtime.block_on(async {
        let server = TestingServer::builder().latency(Duration::ZERO..=Duration::ZERO).start();
        make_directory(&server);
        let client = Client::builder_for_testing(&server).connect().await.expect("a client");
        (server, client)
    });
    (runtime, server, client)
}

#[test]
fn the_delete_of_a_dropped_leader_is_handed_over_before_the_drop_returns() {
    let (runtime, server, client) = threads();
    for round in 0..500 {
        let leader = latch(&client, "latch");
        let leadership = runtime.block_on(leader.wait_for_leadership()).expect("it leads");
        let before = client.request_counts();
        drop(leader);
        assert_eq!((client.request_counts() - before).deletes, 1, "round {round}");
        assert!(!leadership.is_held(), "round {round}");
        runtime.block_on(server.until(|| server.children(PATH).is_empty()));
        assert_eq!((client.request_counts() - before).deletes, 1, "round {round}");
    }
}

#[test]
fn a_latch_that_is_dropped_while_it_gains_leadership_does_not_lead_afterwards() {
    let (runtime, server, client) = threads();
    for round in 0..500 {
        let participant = latch(&client, "latch");
        let states = participant.state();
        // So that the drops fall all around the moment of the gain.
        let at = Instant::now() + Duration::from_micros(round % 100 * 3);
        while Instant::now() < at {
            std::hint::spin_loop();
        }
        drop(participant);
        let until = Instant::now() + Duration::from_micros(200);
        while Instant::now() < until {
            assert!(!states.get().is_leader(), "round {round}");
        }
        runtime.block_on(server.until(|| server.children(PATH).is_empty()));
    }
}
