//! The two error policies, and connections that come and go.

use std::time::{Duration, Instant};

use zookeeper_recipes::leader_latch::LatchStatus;
use zookeeper_recipes::{ConnectionState, ErrorPolicy};

use super::scene::{
    A_WHILE, Edge, Edges, Heard, SOON, Scene, States, ear, hears, leads, leads_in_the_end, nobody_leads_for, reaches,
    stands, was_cut_off_and_came_back,
};
use crate::support::{Fault, eventually, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_short_cut_standard_leads_again_with_the_same_node_and_token_as_a_new_term() {
    let scene = Scene::new("standard").await;
    let (proxy, client) = scene.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard).await;
    let mut states = States::of(&client);
    let latch = scene.latch(&client, "latch");
    let (listener, mut heard) = ear();
    latch.add_listener(listener);
    let first = leads(&latch).await;
    let waiter = scene.latch(&client, "waiter");
    stands(&waiter).await;
    let nodes = scene.nodes().await;

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
    assert_eq!(scene.nodes().await, nodes);
    assert!(!waiter.has_leadership());
    latch.close().await.expect("closed");
    leads_in_the_end(&waiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_cut_is_no_event_for_leader_and_waiter_under_the_session_policy() {
    let scene = Scene::new("session").await;
    let (proxy, client) = scene.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Session).await;
    let mut states = States::of(&client);
    let leader = scene.latch(&client, "leader");
    let (listener, mut heard) = ear();
    leader.add_listener(listener);
    let leadership = leads(&leader).await;
    let token = leadership.fencing_token();
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    let waiter = scene.latch(&client, "waiter");
    stands(&waiter).await;
    let (edges, nodes) = (Edges::of(&leader), scene.nodes().await);
    eventually("the edges are followed", SOON, || async { edges.seen().len() == 1 }).await;

    for _ in 0..3 {
        proxy.cut().await;
        was_cut_off_and_came_back(&client, &mut states).await;
        assert!(leadership.is_held());
    }
    nobody_leads_for(A_WHILE, &[&waiter]).await;
    assert!(matches!(&edges.seen()[..], [Edge::Leads { token: seen, .. }] if *seen == token));
    assert!(heard.try_recv().is_err(), "listeners hear nothing");
    assert_eq!(scene.nodes().await, nodes);
    // Its watches are armed on the new connection: the hand-over works.
    leader.close().await.expect("closed");
    leads_in_the_end(&waiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_standard_ends_at_suspended_and_session_at_the_lease_deadline() {
    const SESSION: Duration = Duration::from_secs(4);
    let scene = Scene::new("gone").await;
    let (first_proxy, standard_client) = scene.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let (second_proxy, session_client) = scene.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
    let standard = super::scene::latch(&standard_client, &format!("{}/standard", scene.path), "standard");
    let session = super::scene::latch(&session_client, &format!("{}/session", scene.path), "session");
    let (in_doubt, kept) = (leads(&standard).await, leads(&session).await);
    let (mut standard_states, mut session_states) = (States::of(&standard_client), States::of(&session_client));

    let begin = Instant::now();
    tokio::join!(first_proxy.set(Fault::Refuse), second_proxy.set(Fault::Refuse));
    standard_states.wait_for(ConnectionState::Suspended).await;
    assert!(!in_doubt.is_held() && !standard.has_leadership());
    reaches(&standard, LatchStatus::Suspended).await;
    session_states.wait_for(ConnectionState::Suspended).await;
    let suspended = begin.elapsed();
    assert!(kept.is_held() && session.has_leadership(), "after {suspended:?}");

    within("the session policy gives up too", SOON, kept.lost()).await;
    let ended = begin.elapsed();
    assert!(!kept.is_held() && !session.has_leadership());
    println!("suspended after {suspended:?}; under the session policy leadership ended after {ended:?} of {SESSION:?}");
    assert!(ended < SESSION, "{ended:?}: no longer than the server keeps the session");
    assert!(ended > suspended + Duration::from_millis(200), "it outlived the cut: {suspended:?}, {ended:?}");
    standard_states.wait_for(ConnectionState::Lost).await;
    session_states.wait_for(ConnectionState::Lost).await;
    assert!(!standard.has_leadership() && !session.has_leadership());

    tokio::join!(first_proxy.set(Fault::Pass), second_proxy.set(Fault::Pass));
    for (latch, lost) in [(&standard, &in_doubt), (&session, &kept)] {
        let regained = leads_in_the_end(latch).await;
        assert!(regained.fencing_token() > lost.fencing_token(), "another session, another node");
        assert!(!lost.is_held());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_started_while_suspended_or_between_sessions_is_elected_once_connected() {
    for (session, lost) in [(20, false), (2, true)] {
        let scene = Scene::new("while-suspended").await;
        let (proxy, client) = scene.client_behind_proxy(Duration::from_secs(session), ErrorPolicy::Standard).await;
        let mut states = States::of(&client);
        let before = client.session_id();
        proxy.set(Fault::Refuse).await;
        states.wait_for(ConnectionState::Suspended).await;
        if lost {
            states.wait_for(ConnectionState::Lost).await;
        }
        let latch = scene.latch(&client, "patient");
        let (listener, mut heard) = ear();
        latch.add_listener(listener);
        nobody_leads_for(A_WHILE, &[&latch]).await;
        assert_eq!(latch.state().borrow().status(), LatchStatus::Entering);
        assert_eq!(client.request_counts().total(), 0);

        proxy.set(Fault::Pass).await;
        let leadership = leads(&latch).await;
        assert_eq!(hears(&mut heard).await, Heard::IsLeader(leadership.fencing_token()));
        assert_eq!(client.session_id() != before, lost);
        assert_eq!(scene.nodes().await.len(), 1);
        // Elected once: a second time would follow at once.
        assert!(tokio::time::timeout(A_WHILE, heard.recv()).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_closed_while_there_is_no_connection_leaves_no_node() {
    let scene = Scene::with_directory("closed-offline").await;
    let (proxy, client) = scene.client_behind_proxy(Duration::from_secs(20), ErrorPolicy::Session).await;
    let mut states = States::of(&client);
    let latch = scene.latch(&client, "offline");
    leads(&latch).await;
    proxy.set(Fault::Refuse).await;
    states.wait_for(ConnectionState::Suspended).await;
    let closing = latch.close();
    tokio::pin!(closing);
    let waits = tokio::time::timeout(A_WHILE, &mut closing).await;
    assert!(waits.is_err(), "the node cannot be deleted yet: {waits:?}");
    assert!(!latch.has_leadership(), "its end does not wait for the server");
    proxy.set(Fault::Pass).await;
    within("the close ends", SOON, closing).await.expect("closed");
    assert_eq!(scene.nodes().await, [""; 0]);
}
