//! The two error policies, and connections that come and go.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::leader_latch::LatchStatus;
use zookeeper_recipes::{Client, ConnectionState, ErrorPolicy};

use super::fixture::{
    Edge, Edges, Heard, PATH, States, hears, latch, latch_at, leads, leads_in_the_end, no_latch_leads_for, reaches,
    recorder, setup, waits, was_cut_off_and_came_back,
};
use crate::fixture::{SOON, T, client_with, still_pending, within};

#[tokio::test(start_paused = true)]
async fn after_a_short_cut_standard_leads_again_with_the_same_node_and_token_as_a_new_term() {
    let (server, []) = setup().await;
    let client = client_with(&server, ErrorPolicy::Standard).await;
    let mut states = States::of(&client);
    let leader = latch(&client, "leader");
    let (listener, mut heard) = recorder();
    leader.add_listener(listener);
    let first = leads(&leader).await;
    let waiter = latch(&client, "waiter");
    waits(&waiter).await;
    let nodes = server.children(PATH);

    assert_eq!(server.disconnect(&client), 1);
    was_cut_off_and_came_back(&client, &mut states).await;
    within("the first term is over", SOON, first.lost()).await;
    let second = leads_in_the_end(&leader).await;
    assert_eq!(second.fencing_token(), first.fencing_token());
    assert!(second.is_held() && !first.is_held());
    let token = first.fencing_token();
    for expected in [Heard::IsLeader(token), Heard::NotLeader, Heard::IsLeader(token)] {
        assert_eq!(hears(&mut heard).await, expected);
    }
    assert_eq!(server.children(PATH), nodes);
    assert!(!waiter.has_leadership());
    leader.close().await.expect("closed");
    leads_in_the_end(&waiter).await;
}

#[tokio::test(start_paused = true)]
async fn a_short_cut_is_no_event_for_leader_and_waiter_under_the_session_policy() {
    let (server, []) = setup().await;
    let client = client_with(&server, ErrorPolicy::Session).await;
    let mut states = States::of(&client);
    let leader = latch(&client, "leader");
    let (listener, mut heard) = recorder();
    leader.add_listener(listener);
    let leadership = leads(&leader).await;
    let token = leadership.fencing_token();
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    let waiter = latch(&client, "waiter");
    waits(&waiter).await;
    let (edges, nodes) = (Edges::of(&leader), server.children(PATH));
    server.until(|| edges.seen().len() == 1).await;

    for _ in 0..3 {
        assert_eq!(server.disconnect(&client), 1);
        was_cut_off_and_came_back(&client, &mut states).await;
        assert!(leadership.is_held());
    }
    no_latch_leads_for(SOON, &[&waiter]).await;
    assert!(matches!(&edges.seen()[..], [Edge::Leads { token: seen, .. }] if *seen == token));
    assert!(heard.try_recv().is_err(), "listeners hear nothing");
    assert_eq!(server.children(PATH), nodes);
    // Its watches are armed on the new connection, so the leadership passes on.
    leader.close().await.expect("closed");
    leads_in_the_end(&waiter).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_server_standard_ends_at_suspended_and_session_at_the_lease_deadline() {
    let (server, []) = setup().await;
    let standard_client = client_with(&server, ErrorPolicy::Standard).await;
    let session_client = client_with(&server, ErrorPolicy::Session).await;
    let standard = latch_at(&standard_client, "/elections/standard", "standard");
    let session = latch_at(&session_client, "/elections/session", "session");
    let (in_doubt, kept) = (leads(&standard).await, leads(&session).await);
    let (mut standard_states, mut session_states) = (States::of(&standard_client), States::of(&session_client));

    let begin = Instant::now();
    for client in [&standard_client, &session_client] {
        server.refuse(client);
        server.disconnect(client);
    }
    standard_states.wait_for(ConnectionState::Suspended).await;
    assert!(!in_doubt.is_held() && !standard.has_leadership());
    reaches(&standard, LatchStatus::Suspended).await;
    session_states.wait_for(ConnectionState::Suspended).await;
    let suspended = begin.elapsed();
    assert!(kept.is_held() && session.has_leadership(), "after {suspended:?}");

    within("the session policy gives up too", T, kept.lost()).await;
    let ended = begin.elapsed();
    assert!(!kept.is_held() && !session.has_leadership());
    assert!(ended < T, "{ended:?}: no longer than the server keeps the session");
    assert!(ended > suspended + Duration::from_millis(200), "it outlived the cut: {suspended:?}, {ended:?}");
    standard_states.wait_for(ConnectionState::Lost).await;
    session_states.wait_for(ConnectionState::Lost).await;
    assert!(!standard.has_leadership() && !session.has_leadership());

    server.heal();
    for (latch, lost) in [(&standard, &in_doubt), (&session, &kept)] {
        let regained = leads_in_the_end(latch).await;
        assert!(regained.fencing_token() > lost.fencing_token(), "another session, another node");
        assert!(!lost.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_latch_started_while_suspended_or_between_sessions_is_elected_once_connected() {
    for lost in [false, true] {
        let (server, []) = setup().await;
        let session = if lost { Duration::from_secs(4) } else { T };
        let client = Client::builder_for_testing(&server).session_timeout(session).connect().await.expect("a client");
        let mut states = States::of(&client);
        let before = client.session_id();
        server.refuse(&client);
        server.disconnect(&client);
        states.wait_for(ConnectionState::Suspended).await;
        if lost {
            states.wait_for(ConnectionState::Lost).await;
        }
        let latch = latch(&client, "patient");
        let (listener, mut heard) = recorder();
        latch.add_listener(listener);
        no_latch_leads_for(SOON, &[&latch]).await;
        assert_eq!(latch.state().get().status(), LatchStatus::Entering);
        assert_eq!(client.request_counts().total(), 0);

        server.heal();
        let leadership = leads(&latch).await;
        assert_eq!(hears(&mut heard).await, Heard::IsLeader(leadership.fencing_token()));
        assert_eq!(client.session_id() != before, lost);
        assert_eq!(server.children(PATH).len(), 1);
        // Elected once: a second time would follow at once.
        assert!(tokio::time::timeout(SOON, heard.recv()).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_latch_closed_while_there_is_no_connection_leaves_no_node() {
    let (server, []) = setup().await;
    let client = client_with(&server, ErrorPolicy::Session).await;
    let mut states = States::of(&client);
    let latch = latch(&client, "offline");
    leads(&latch).await;
    server.refuse(&client);
    server.disconnect(&client);
    states.wait_for(ConnectionState::Suspended).await;
    let mut closing = Box::pin(latch.close());
    // The node cannot be deleted yet.
    still_pending("the close", &mut closing).await;
    assert!(!latch.has_leadership(), "its end does not wait for the server");
    server.heal();
    within("the close ends", T, closing).await.expect("closed");
    assert!(server.children(PATH).is_empty());
}
