//! Real servers that stop and start again, with what they kept of sessions and nodes.

use std::time::Duration;

use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{Client, ConnectionState, ErrorPolicy};

use super::fixture::{
    A_WHILE, Edge, Edges, Heard, SOON, States, builder, connect, hears, latch, leads, leads_in_the_end, reaches,
    recorder, waits, was_cut_off_and_came_back,
};
use crate::support::{Fault, Observer, Proxy, ZooKeeper, eventually, unique_path};

/// The state of one election that is compared over a restart.
struct Election {
    client: Client,
    states: States,
    leader: LeaderLatch,
    waiter: LeaderLatch,
    path: &'static str,
}

impl Election {
    async fn start(proxy: &Proxy, path: &'static str, policy: ErrorPolicy) -> Election {
        // Far longer than a restart takes.
        let long = Duration::from_secs(30);
        // The servers here grant what is asked for, whichever answers.
        let builder = builder(&proxy.connect_string(), long).min_session_timeout(long).error_policy(policy);
        let client = connect(builder).await;
        let leader = latch(&client, path, "leader");
        leads(&leader).await;
        let waiter = latch(&client, path, "waiter");
        waits(&waiter).await;
        Election { states: States::of(&client), client, leader, waiter, path }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_within_the_session_timeout_is_no_edge_under_session_and_a_new_term_under_standard() {
    let server = ZooKeeper::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let observer = Observer::connect(&server.connect_string()).await;
    let mut kept = Election::start(&proxy, "/session", ErrorPolicy::Session).await;
    let mut interrupted = Election::start(&proxy, "/standard", ErrorPolicy::Standard).await;
    let (kept_term, first_term) = (leads(&kept.leader).await, leads(&interrupted.leader).await);
    let (listener, mut heard) = recorder();
    kept.leader.add_listener(listener);
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(kept_term.fencing_token()));
    let edges = [&kept.leader, &kept.waiter, &interrupted.leader, &interrupted.waiter].map(Edges::of);
    let before = [observer.children(kept.path).await, observer.children(interrupted.path).await];
    let sessions = [kept.client.session_id(), interrupted.client.session_id()];
    eventually("the edges are followed", SOON, || async { edges[0].seen().len() + edges[2].seen().len() == 2 }).await;

    server.stop().await;
    // A server that is only half started accepts connections and does not answer: that is another test's business.
    proxy.set(Fault::Refuse).await;
    server.start_again().await;
    proxy.set(Fault::Pass).await;
    was_cut_off_and_came_back(&kept.client, &mut kept.states).await;
    was_cut_off_and_came_back(&interrupted.client, &mut interrupted.states).await;
    let second_term = leads_in_the_end(&interrupted.leader).await;
    assert_eq!([kept.client.session_id(), interrupted.client.session_id()], sessions);
    let after = [observer.children(kept.path).await, observer.children(interrupted.path).await];
    assert_eq!(after, before, "the same nodes");

    assert!(kept_term.is_held());
    let term =
        |token: i64, latch: &LeaderLatch| Edge::Leads { token, node: latch.our_path().expect("a leader has a node") };
    assert_eq!(edges[0].seen(), [term(kept_term.fencing_token(), &kept.leader)]);
    assert!(heard.try_recv().is_err(), "listeners hear nothing");
    assert!(!first_term.is_held() && second_term.is_held());
    assert_eq!(second_term.fencing_token(), first_term.fencing_token());
    let same = term(first_term.fencing_token(), &interrupted.leader);
    assert_eq!(edges[2].seen(), [same.clone(), Edge::LeadsNot, same]);
    assert_eq!([edges[1].seen(), edges[3].seen()], [[], []], "the waiters wait");

    // The new connections watch: hand-overs work.
    for election in [&kept, &interrupted] {
        election.leader.close().await.expect("closed");
        leads_in_the_end(&election.waiter).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_latches_of_a_lost_server_lead_not_at_all_and_exactly_one_when_it_is_back() {
    let server = ZooKeeper::start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    let (mut clients, mut states, mut latches) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..10 {
        let policy = [ErrorPolicy::Standard, ErrorPolicy::Session][number % 2];
        let client = connect(builder(&server.connect_string(), Duration::from_secs(2)).error_policy(policy)).await;
        latches.push(latch(&client, "/ten", &number.to_string()));
        states.push(States::of(&client));
        clients.push(client);
    }
    let all = &latches;
    let how_many = || all.iter().filter(|latch| latch.has_leadership()).count();
    eventually("one leads", SOON, || async { how_many() == 1 }).await;

    server.stop().await;
    for states in &mut states {
        states.wait_for(ConnectionState::Lost).await;
    }
    assert_eq!(how_many(), 0);
    server.start_again().await;
    for states in &mut states {
        states.wait_for(ConnectionState::Reconnected).await;
    }
    eventually("all have joined again and one leads", SOON, || async {
        observer.children("/ten").await.len() == 10 && how_many() == 1
    })
    .await;
    // One stays one.
    let end = tokio::time::Instant::now() + A_WHILE;
    while tokio::time::Instant::now() < end {
        assert_eq!(how_many(), 1);
        tokio::task::yield_now().await;
    }
    for latch in all {
        if !latch.has_leadership() {
            reaches(latch, zookeeper_recipes::leader_latch::LatchStatus::Waiting).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_ensemble_in_place_of_the_old_one_is_joined_again() {
    let (old, new) = tokio::join!(ZooKeeper::shared(), ZooKeeper::start());
    let proxy = Proxy::start(old.addr()).await;
    let path = unique_path("replaced");
    let mut all = Vec::new();
    for id in ["leader", "follower"] {
        let client = connect(builder(&proxy.connect_string(), Duration::from_secs(4))).await;
        let latch = latch(&client, &path, id);
        if all.is_empty() {
            leads(&latch).await;
        } else {
            waits(&latch).await;
        }
        all.push((States::of(&client), latch, client));
    }
    let before = leads(&all[0].1).await;
    proxy.follow(new.addr());
    proxy.cut().await;
    for (states, _, _) in &mut all {
        states.wait_for(ConnectionState::Lost).await;
    }
    assert!(!before.is_held());
    let observer = Observer::connect(&new.connect_string()).await;
    observer.wait_for_children(&path, 2).await;
    eventually("both know their nodes and one leads", SOON, || async {
        all.iter().all(|(_, latch, _)| latch.our_path().is_some())
            && all.iter().filter(|(_, latch, _)| latch.has_leadership()).count() == 1
    })
    .await;
    for (_, latch, client) in &all {
        let node = latch.our_path().expect("it has a node");
        assert_eq!(observer.owner(&node).await, client.session_id());
    }
}
