//! Servers that stop and start again.

use futures::future::try_join_all;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::{Data, TestingServer};
use zookeeper_recipes::{Client, ConnectionState, ErrorPolicy};

use super::fixture::{
    Edge, Edges, Heard, PATH, States, hears, latch, latch_at, leads, leads_in_the_end, node_of, reaches, recorder,
    setup, waits, was_cut_off_and_came_back,
};
use crate::fixture::{SOON, T, client_with};

/// The state of one election that is compared over a restart.
struct Election {
    client: Client,
    states: States,
    leader: LeaderLatch,
    waiter: LeaderLatch,
    path: &'static str,
}

impl Election {
    async fn start(server: &TestingServer, path: &'static str, policy: ErrorPolicy) -> Election {
        let client = client_with(server, policy).await;
        let leader = latch_at(&client, path, "leader");
        leads(&leader).await;
        let waiter = latch_at(&client, path, "waiter");
        waits(&waiter).await;
        Election { states: States::of(&client), client, leader, waiter, path }
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_within_the_session_timeout_is_no_edge_under_session_and_a_new_term_under_standard() {
    let server = TestingServer::start();
    let mut kept = Election::start(&server, "/session", ErrorPolicy::Session).await;
    let mut interrupted = Election::start(&server, "/standard", ErrorPolicy::Standard).await;
    let (kept_term, first_term) = (leads(&kept.leader).await, leads(&interrupted.leader).await);
    let (listener, mut heard) = recorder();
    kept.leader.add_listener(listener);
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(kept_term.fencing_token()));
    let edges = [&kept.leader, &kept.waiter, &interrupted.leader, &interrupted.waiter].map(Edges::of);
    let nodes = || [server.children(kept.path), server.children(interrupted.path)];
    let before = nodes();
    let sessions = [kept.client.session_id(), interrupted.client.session_id()];
    server.until(|| edges[0].seen().len() + edges[2].seen().len() == 2).await;

    server.stop();
    tokio::time::sleep(T / 5).await;
    server.restart(Data::Kept);
    was_cut_off_and_came_back(&kept.client, &mut kept.states).await;
    was_cut_off_and_came_back(&interrupted.client, &mut interrupted.states).await;
    let second_term = leads_in_the_end(&interrupted.leader).await;
    assert_eq!([kept.client.session_id(), interrupted.client.session_id()], sessions);
    assert_eq!(nodes(), before, "the same nodes");

    assert!(kept_term.is_held());
    let term = |token: i64, latch: &LeaderLatch| Edge::Leads { token, node: node_of(latch) };
    assert_eq!(edges[0].seen(), [term(kept_term.fencing_token(), &kept.leader)]);
    assert!(heard.try_recv().is_err(), "listeners hear nothing");
    assert!(!first_term.is_held() && second_term.is_held());
    assert_eq!(second_term.fencing_token(), first_term.fencing_token());
    let same = term(first_term.fencing_token(), &interrupted.leader);
    server.until(|| edges[2].seen().len() == 3).await;
    assert_eq!(edges[2].seen(), [same.clone(), Edge::LeadsNot, same]);
    assert_eq!([edges[1].seen(), edges[3].seen()], [[], []], "the waiters wait");

    // The new connections watch, so leadership passes on.
    for election in [&kept, &interrupted] {
        election.leader.close().await.expect("closed");
        leads_in_the_end(&election.waiter).await;
    }
}

#[tokio::test(start_paused = true)]
async fn ten_latches_of_a_lost_server_lead_not_at_all_and_exactly_one_when_it_is_back() {
    let (server, []) = setup().await;
    let policies = [ErrorPolicy::Standard, ErrorPolicy::Session];
    let mut clients = Vec::new();
    for number in 0..10 {
        clients.push(client_with(&server, policies[number % 2]).await);
    }
    let latches: Vec<_> = clients.iter().enumerate().map(|(n, client)| latch(client, &n.to_string())).collect();
    let mut states: Vec<_> = clients.iter().map(States::of).collect();
    let how_many = || latches.iter().filter(|latch| latch.has_leadership()).count();
    server.until(|| how_many() == 1).await;

    server.stop();
    for states in &mut states {
        states.wait_for(ConnectionState::Lost).await;
    }
    assert_eq!(how_many(), 0);
    server.restart(Data::Kept);
    for states in &mut states {
        states.wait_for(ConnectionState::Reconnected).await;
    }
    // The servers still have the old sessions, whose nodes the new ones delete.
    server.until(|| server.children(PATH).len() == 10 && how_many() == 1).await;
    // One stays one.
    let end = tokio::time::Instant::now() + SOON;
    while tokio::time::Instant::now() < end {
        assert_eq!(how_many(), 1);
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    for latch in &latches {
        if !latch.has_leadership() {
            reaches(latch, LatchStatus::Waiting).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_ensemble_in_place_of_the_old_one_is_entered_again() {
    let server = TestingServer::start();
    let clients = try_join_all((0..2).map(|_| server.client())).await.expect("clients");
    let latches: Vec<_> = clients.iter().zip(["leader", "follower"]).map(|(client, id)| latch(client, id)).collect();
    let how_many = || latches.iter().filter(|latch| latch.has_leadership()).count();
    server.until(|| how_many() == 1 && server.children(PATH).len() == 2).await;
    let first = latches.iter().find(|latch| latch.has_leadership()).expect("one leads");
    let before = leads(first).await;
    let mut states: Vec<_> = clients.iter().map(States::of).collect();

    server.restart(Data::Lost);
    for states in &mut states {
        states.wait_for(ConnectionState::Lost).await;
    }
    assert!(!before.is_held());
    let known = || latches.iter().all(|latch| latch.our_path().is_some());
    server.until(|| server.children(PATH).len() == 2 && known() && how_many() == 1).await;
    for (latch, client) in latches.iter().zip(&clients) {
        assert_eq!(server.stat(&node_of(latch)).map(|stat| stat.ephemeral_owner), client.session_id());
    }
}
