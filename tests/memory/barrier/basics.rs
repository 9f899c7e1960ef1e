//! The basic behaviour of a barrier.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::barrier::Barrier;
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{PATH, barrier, is_set, setup};
use crate::fixture::{SOON, T, requests, still_pending, within};

#[tokio::test(start_paused = true)]
async fn waiters_continue_when_the_barrier_is_removed() {
    let (server, one, two) = setup().await;
    let setter = barrier(&one);
    for _ in 0..5 {
        setter.set().await.expect("set");
        assert!(is_set(&server));
        let waiting = barrier(&two);
        let mut waits = Box::pin(join_all((0..20).map(|_| waiting.wait())));
        still_pending("the barrier is set", &mut waits).await;
        setter.remove().await.expect("removed");
        assert!(within("all waiters return", SOON, waits).await.iter().all(Result::is_ok));
        assert!(!is_set(&server));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_barrier_no_call_waits() {
    let (_server, client, _) = setup().await;
    let barrier = barrier(&client);
    within("there is none", SOON, barrier.wait()).await.expect("an answer");
    assert!(within("there is none", SOON, barrier.wait_timeout(SOON)).await.expect("an answer"));
    barrier.remove().await.expect("there is nothing to do");
}

#[tokio::test(start_paused = true)]
async fn setting_twice_and_removing_twice_is_fine() {
    let (server, one, two) = setup().await;
    let (one, two) = (barrier(&one), barrier(&two));
    one.set().await.expect("set");
    let czxid = server.stat(PATH).expect("the barrier is set").czxid;
    two.set().await.expect("set already");
    assert_eq!(server.stat(PATH).map(|stat| stat.czxid), Some(czxid), "it is left as it is");
    two.remove().await.expect("removed");
    one.remove().await.expect("removed already");
}

#[tokio::test(start_paused = true)]
async fn the_node_is_curators_persistent_and_survives_all_clients() {
    let (server, one, two) = setup().await;
    let setter = Barrier::builder(&one, PATH).data("by one").build().expect("good options");
    assert_eq!(setter.path(), PATH);
    setter.set().await.expect("set");
    assert_eq!(server.get(PATH).as_deref(), Some(&b"by one"[..]));
    one.close().await.expect("closed");
    tokio::time::sleep(T * 3).await;
    assert_eq!(server.stat(PATH).expect("the barrier is set").ephemeral_owner, 0);
    barrier(&two).remove().await.expect("another client removes it");
    assert!(!is_set(&server));
    server.create_by_hand(PATH, "10.0.0.1", CreateMode::Persistent).expect("Curator sets it");
    let two = barrier(&two);
    let mut waiting = Box::pin(two.wait());
    still_pending("the barrier is set", &mut waiting).await;
    server.delete_by_hand(PATH).expect("Curator removes it");
    within("it is gone", SOON, waiting).await.expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn a_barrier_that_is_set_again_at_once_may_hold_up_who_waits_but_never_for_ever() {
    let (_server, one, two) = setup().await;
    let (setter, waiting) = (barrier(&one), barrier(&two));
    setter.set().await.expect("set");
    let mut waits = Box::pin(waiting.wait());
    still_pending("the barrier is set", &mut waits).await;
    setter.remove().await.expect("removed");
    setter.set().await.expect("set");
    let _ = tokio::time::timeout(SOON, &mut waits).await;
    setter.remove().await.expect("removed");
    let again = within("it is gone", SOON, barrier(&two).wait()).await;
    again.expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn data_that_changes_releases_no_waiter() {
    let (server, one, two) = setup().await;
    barrier(&one).set().await.expect("set");
    let two = barrier(&two);
    let mut waits = Box::pin(two.wait());
    for _ in 0..3 {
        still_pending("the barrier is set", &mut waits).await;
        server.set_data_by_hand(PATH, "still").expect("the barrier is set");
    }
    barrier(&one).remove().await.expect("removed");
    within("it is gone", SOON, waits).await.expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn a_client_told_of_a_barrier_waits_for_it_also_at_a_server_that_lags() {
    for seed in 0..20 {
        let lag = Duration::ZERO..=Duration::from_secs(1);
        let server = TestingServer::builder().seed(seed).servers(3).lag(lag).start();
        let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
        barrier(&one).set().await.expect("set");
        let told = barrier(&two).wait_timeout(T).await.expect("an answer");
        assert!(!told, "seed {seed}: it is set, and was set before the wait began");
        barrier(&one).remove().await.expect("removed");
        within("it is gone", T, barrier(&two).wait()).await.expect("an answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_costs_two_requests_in_one_flight_and_again_two_when_it_is_over() {
    let (server, one, two) = setup().await;
    barrier(&one).set().await.expect("set");
    let two = barrier(&two);
    server.clear_records();
    let mut waits = Box::pin(two.wait());
    still_pending("the barrier is set", &mut waits).await;
    // The sync before it is not among these.
    assert_eq!(requests(&server), [Operation::GetData]);
    server.clear_records();
    barrier(&one).remove().await.expect("removed");
    within("it is gone", SOON, waits).await.expect("an answer");
    assert_eq!(requests(&server), [Operation::Delete, Operation::GetData]);
}

#[tokio::test(start_paused = true)]
async fn missing_parents_are_made_as_containers_also_in_a_namespace() {
    let server = TestingServer::start();
    let client = Client::builder_for_testing(&server).namespace("/app").connect().await.expect("a client");
    let barrier = barrier(&client);
    barrier.set().await.expect("set");
    assert!(server.stat(&format!("/app{PATH}")).is_some());
    assert!(!barrier.wait_timeout(SOON).await.expect("an answer"));
    barrier.remove().await.expect("removed");
    server.until(|| server.stat("/app").is_none()).await;
}
