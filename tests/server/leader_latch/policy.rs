//! The two error policies over a connection that a real server takes up again, with the watches that were set on it.
//! The rest is shown in memory.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::fixture::{
    A_WHILE, Edge, Edges, Fixture, Heard, SOON, States, hears, leads, leads_in_the_end, no_latch_leads_for, recorder,
    waits, was_cut_off_and_came_back,
};
use crate::support::{eventually, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_short_cut_standard_leads_again_with_the_same_node_and_token_as_a_new_term() {
    let fixture = Fixture::new("standard").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard).await;
    let mut states = States::of(&client);
    let latch = fixture.latch(&client, "latch");
    let (listener, mut heard) = recorder();
    latch.add_listener(listener);
    let first = leads(&latch).await;
    let waiter = fixture.latch(&client, "waiter");
    waits(&waiter).await;
    let nodes = fixture.nodes().await;

    proxy.cut().await;
    was_cut_off_and_came_back(&client, &mut states).await;
    within("the first term is over", SOON, first.lost()).await;
    let second = leads_in_the_end(&latch).await;
    assert_eq!(second.fencing_token(), first.fencing_token());
    assert!(second.is_held() && !first.is_held());
    let token = first.fencing_token();
    for expected in [Heard::IsLeader(token), Heard::NotLeader, Heard::IsLeader(token)] {
        assert_eq!(hears(&mut heard).await, expected);
    }
    assert_eq!(fixture.nodes().await, nodes);
    assert!(!waiter.has_leadership());
    latch.close().await.expect("closed");
    leads_in_the_end(&waiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_cut_is_no_event_for_leader_and_waiter_under_the_session_policy() {
    let fixture = Fixture::new("session").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Session).await;
    let mut states = States::of(&client);
    let leader = fixture.latch(&client, "leader");
    let (listener, mut heard) = recorder();
    leader.add_listener(listener);
    let leadership = leads(&leader).await;
    let token = leadership.fencing_token();
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    let waiter = fixture.latch(&client, "waiter");
    waits(&waiter).await;
    let (edges, nodes) = (Edges::of(&leader), fixture.nodes().await);
    eventually("the edges are followed", SOON, || async { edges.seen().len() == 1 }).await;

    for _ in 0..3 {
        proxy.cut().await;
        was_cut_off_and_came_back(&client, &mut states).await;
        assert!(leadership.is_held());
    }
    no_latch_leads_for(A_WHILE, &[&waiter]).await;
    assert!(matches!(&edges.seen()[..], [Edge::Leads { token: seen, .. }] if *seen == token));
    assert!(heard.try_recv().is_err(), "listeners hear nothing");
    assert_eq!(fixture.nodes().await, nodes);
    // Its watches are armed on the new connection: the hand-over works.
    leader.close().await.expect("closed");
    leads_in_the_end(&waiter).await;
}
