//! The cost of an election and of many participants: requests until it is idle, and heartbeats while it is idle.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{Client, RequestCounts};

use super::fixture::{latch, leads, make_directory, reaches, setup, waits};
use crate::fixture::{SOON, T, requests};

const LATCHES: usize = 100;
const LATENCY: Duration = Duration::from_millis(5);

/// A hundred latches of as many clients, in the order of the line.
async fn a_long_line() -> (TestingServer, Vec<Client>, Vec<LeaderLatch>) {
    let server = TestingServer::builder().latency(LATENCY..=LATENCY).start();
    make_directory(&server);
    let connecting = (0..LATCHES).map(|_| Client::builder_for_testing(&server).session_timeout(T).connect());
    let clients = futures::future::try_join_all(connecting).await.expect("clients");
    let latches: Vec<LeaderLatch> = clients.iter().map(|client| latch(client, "latch")).collect();
    server.until(|| latches.iter().all(|latch| latch.our_path().is_some())).await;
    tokio::time::sleep(SOON).await;
    let mut line: Vec<(Client, LeaderLatch)> = clients.into_iter().zip(latches).collect();
    let number = |latch: &LeaderLatch| latch.our_path().and_then(|path| path.rsplit('-').next().map(str::to_owned));
    line.sort_by_key(|(_, latch)| number(latch));
    let (clients, latches) = line.into_iter().unzip();
    (server, clients, latches)
}

fn heartbeats(clients: &[Client]) -> u64 {
    clients.iter().map(|client| client.request_counts().heartbeats).sum()
}

#[tokio::test(start_paused = true)]
async fn a_hundred_latches_come_to_rest_with_three_requests_each() {
    let (_server, clients, latches) = a_long_line().await;
    assert!(latches[0].has_leadership());
    let totals: Vec<u64> = clients.iter().map(|client| client.request_counts().total()).collect();
    // The second also watches its own node, as it will lead without asking again.
    assert_eq!((totals[0], totals[1]), (3, 4));
    assert!(totals[2..].iter().all(|total| *total == 3), "{totals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_hundred_clients_costs_the_heartbeats_of_two_and_is_handed_on_with_no_round_trip_more() {
    let (_server, clients, mut latches) = a_long_line().await;
    let leads_after = async |closed: LeaderLatch, next: &LeaderLatch| {
        let begun = Instant::now();
        closed.close().await.expect("closed");
        reaches(next, LatchStatus::Leading).await;
        begun.elapsed()
    };
    // The second needs the event and nothing else; the third lists the line.
    let took = leads_after(latches.remove(0), &latches[0]).await;
    assert!(took <= LATENCY * 2 + Duration::from_millis(1), "{took:?}");
    let took = leads_after(latches.remove(0), &latches[0]).await;
    assert!(took <= LATENCY * 4 + Duration::from_millis(1), "{took:?}");

    tokio::time::sleep(T).await;
    let before = heartbeats(&clients);
    tokio::time::sleep(T * 5).await;
    let beats = heartbeats(&clients) - before;
    assert!((1..=3 * 6 * 5).contains(&beats), "{beats} heartbeats in five session timeouts");
    // Also after all that time: the session of the next one is proven in the flight of its list, by way of the leader.
    let beats = heartbeats(&clients);
    let took = leads_after(latches.remove(0), &latches[0]).await;
    assert!(took <= LATENCY * 4 + Duration::from_millis(3), "{took:?}");
    assert!(heartbeats(&clients) > beats);
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_without_heartbeats_is_told_of_a_lost_connection_all_the_same() {
    let (server, clients, latches) = a_long_line().await;
    let before = heartbeats(&clients[50..=50]);
    tokio::time::sleep(T * 2).await;
    assert_eq!(heartbeats(&clients[50..=50]), before, "it sends none");
    server.refuse(&clients[50]);
    server.disconnect(&clients[50]);
    reaches(&latches[50], LatchStatus::Suspended).await;
    server.heal();
    reaches(&latches[50], LatchStatus::Waiting).await;
}

#[tokio::test(start_paused = true)]
async fn to_lead_uncontended_costs_one_create_one_list_and_one_watch_and_to_leave_one_delete() {
    let (server, [client]) = setup().await;
    server.clear_records();
    let latch = latch(&client, "alone");
    leads(&latch).await;
    tokio::time::sleep(SOON).await;
    let counts = client.request_counts();
    assert_eq!((counts.creates, counts.lists, counts.watches), (1, 1, 1), "{counts:?}");
    assert_eq!(counts.total(), 3, "{counts:?}");
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::GetData]);

    server.clear_records();
    latch.close().await.expect("closed");
    tokio::time::sleep(SOON).await;
    let after = client.request_counts() - counts;
    assert_eq!((after.deletes, after.total()), (1, 1), "{after:?}");
    let sent = requests(&server);
    assert_eq!(sent.first(), Some(&Operation::Delete), "{sent:?}");
    // The watch on its own node is dropped with it.
    assert!(sent[1..].iter().all(|operation| *operation == Operation::RemoveWatch), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failover_costs_the_waiter_nothing() {
    let (_server, [leader_client, waiter_client]) = setup().await;
    let leader = latch(&leader_client, "leader");
    leads(&leader).await;
    let waiter = latch(&waiter_client, "waiter");
    waits(&waiter).await;
    tokio::time::sleep(SOON).await;
    let entered = waiter_client.request_counts();
    // Its own node and the one before it are watched.
    assert_eq!((entered.creates, entered.lists, entered.watches), (1, 1, 2), "{entered:?}");
    assert_eq!(entered.total(), 4, "{entered:?}");

    leader.close().await.expect("closed");
    leads(&waiter).await;
    tokio::time::sleep(SOON).await;
    assert_eq!((waiter_client.request_counts() - entered).total(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_lease_costs_six_heartbeats_in_a_session_timeout_and_nothing_without_a_latch() {
    let (_server, [client]) = setup().await;
    // A client without a recipe sends nothing but pings.
    tokio::time::sleep(T * 2).await;
    assert_eq!(client.request_counts(), RequestCounts::default());
    let latch = latch(&client, "beating");
    leads(&latch).await;
    let before = client.request_counts();
    tokio::time::sleep(T).await;
    let beats = (client.request_counts() - before).heartbeats;
    assert!((4..=8).contains(&beats), "{beats} heartbeats");
    latch.close().await.expect("closed");
    // For a few seconds the lease is kept for the next user.
    tokio::time::sleep(T).await;
    let closed = client.request_counts();
    tokio::time::sleep(T).await;
    assert_eq!((client.request_counts() - closed).heartbeats, 0);
}
