//! Connections, sessions, nodes and servers that go.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::leader_selector::{SelectorStatus, TermEnd};
use zookeeper_recipes::{ConnectionState, ErrorPolicy};

use super::fixture::{Fixture, SOON, Stage, States, builder, connect, leads, next, reaches, selector};
use crate::support::{Fault, ZooKeeper, eventually, unique_path};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_term_ends_with_the_connection_under_the_standard_policy_and_survives_a_cut_under_the_session_policy() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let fixture = Fixture::with_directory("policy").await;
        let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(10), policy).await;
        let mut states = States::of(&client);
        let stage = Arc::<Stage>::default();
        let alice = selector(&client, &fixture.path, "alice", &stage, None);
        let mut outcomes = alice.outcomes();
        leads(&alice).await;
        proxy.cut().await;
        states.wait_for(ConnectionState::Suspended).await;
        states.wait_for(ConnectionState::Reconnected).await;
        if policy == ErrorPolicy::Standard {
            assert!(matches!(next(&mut outcomes).await.end, TermEnd::Lost));
        }
        leads(&alice).await;
        let terms = if policy == ErrorPolicy::Standard { 2 } else { 1 };
        eventually("the listener leads", SOON, || async { stage.terms().len() >= terms }).await;
        assert_eq!((stage.terms().len(), stage.most_and_now()), (terms, (1, 1)), "{policy:?}");
        assert_eq!(fixture.nodes().await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_sessions_are_survived_again_and_again() {
    let fixture = Fixture::with_directory("killed").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(4), ErrorPolicy::Session).await;
    let stage = Arc::<Stage>::default();
    let alice = selector(&client, &fixture.path, "alice", &stage, None);
    let mut outcomes = alice.outcomes();
    for _ in 0..4 {
        leads(&alice).await;
        proxy.kill_session().await;
        proxy.cut().await;
        assert!(matches!(next(&mut outcomes).await.end, TermEnd::Lost));
    }
    eventually("the listener leads", SOON, || async { stage.terms().len() >= 5 }).await;
    let terms = stage.terms();
    assert_eq!((terms.len(), stage.most_and_now()), (5, (1, 1)));
    assert!(terms.is_sorted_by(|(_, one), (_, next)| one < next));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_silence_the_listener_is_gone_before_another_leads() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let fixture = Fixture::with_directory("silence").await;
        let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(3), policy).await;
        // One stage for both: two at once would show.
        let stage = Arc::<Stage>::default();
        let alice = selector(&client, &fixture.path, "alice", &stage, None);
        leads(&alice).await;
        let bob = selector(&fixture.client().await, &fixture.path, "bob", &stage, None);
        reaches(&bob, SelectorStatus::Waiting).await;
        proxy.set(Fault::BlackHole).await;
        leads(&bob).await;
        assert!(!alice.has_leadership());
        proxy.set(Fault::Pass).await;
        reaches(&alice, SelectorStatus::Waiting).await;
        assert!(bob.interrupt_leadership());
        leads(&alice).await;
        assert_eq!(stage.most_and_now().0, 1, "{policy:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_node_is_deleted_stops_leading_and_rejoins() {
    let fixture = Fixture::with_directory("deleted").await;
    let stage = Arc::<Stage>::default();
    let alice = selector(&fixture.client().await, &fixture.path, "alice", &stage, None);
    leads(&alice).await;
    let bob = selector(&fixture.client().await, &fixture.path, "bob", &stage, None);
    reaches(&bob, SelectorStatus::Waiting).await;
    let mut outcomes = alice.outcomes();
    let leader = bob.leader().await.expect("an answer").expect("there is a leader");
    assert_eq!(leader.id, "alice");
    fixture.observer.delete(&leader.path).await;
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Lost));
    leads(&bob).await;
    reaches(&alice, SelectorStatus::Waiting).await;
    eventually("the listener leads", SOON, || async { stage.terms().len() == 2 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_is_survived_by_all() {
    let server = ZooKeeper::start().await;
    let path = unique_path("restart");
    let stage = Arc::<Stage>::default();
    let (one, two) = (
        connect(builder(&server.connect_string(), Duration::from_secs(10))).await,
        connect(builder(&server.connect_string(), Duration::from_secs(10))).await,
    );
    let time = Duration::from_millis(50);
    let all = [selector(&one, &path, "alice", &stage, time), selector(&two, &path, "bob", &stage, time)];
    eventually("both lead", SOON, || async { stage.terms().len() >= 4 }).await;
    server.restart().await;
    let before = stage.terms().len();
    eventually("both lead again", SOON * 2, || async {
        let since = stage.terms().split_off(before);
        all.iter().all(|selector| since.iter().any(|(id, _)| id == selector.id()))
    })
    .await;
    assert_eq!(stage.most_and_now().0, 1);
}
