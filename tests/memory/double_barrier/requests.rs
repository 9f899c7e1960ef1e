//! The requests of a round.

use std::time::Duration;

use zookeeper_recipes::testing::{Operation, TestingServer};

use super::fixture::{enter_all, leave_all, make_directory, member, members, setup};
use crate::fixture::{SOON, heartbeats_in_three_timeouts, requests, still_pending};

const ROUNDS: u64 = 50;

/// Requests of a member in a round, of so many members, on average over several schedules.
async fn requests_a_member(members_there: usize, jitter: Duration) -> f64 {
    let mut total = 0;
    for seed in 0..4 {
        let server = TestingServer::builder().seed(seed).start();
        make_directory(&server);
        let mut clients = Vec::new();
        for _ in 0..members_there {
            clients.push(server.client().await.expect("a client"));
        }
        let tasks: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, client)| {
                let barrier = member(client, members_there);
                let mut random = fastrand::Rng::with_seed(seed * 1_000 + number as u64);
                server.spawn(client, async move {
                    for _ in 0..ROUNDS {
                        tokio::time::sleep(jitter.mul_f64(random.f64())).await;
                        barrier.enter().await.expect("entered");
                        tokio::time::sleep(jitter.mul_f64(random.f64())).await;
                        barrier.leave().await.expect("left");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        total += clients.iter().map(|client| client.request_counts().total()).sum::<u64>();
    }
    total as f64 / (4 * ROUNDS) as f64 / members_there as f64
}

#[tokio::test(start_paused = true)]
async fn enter_and_leave_cost_about_seven_requests_a_member_and_never_more_than_eight() {
    for members in [2, 8, 32] {
        for jitter in [0, 1, 20, 500] {
            let cost = requests_a_member(members, Duration::from_millis(jitter)).await;
            println!("{members} members that come within {jitter} ms: {cost:.2} requests each");
            assert!(cost <= 8.0, "{members} members that come within {jitter} ms: {cost:.2} requests each");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn to_enter_is_one_flight_of_three_and_to_be_let_in_costs_nothing() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    server.clear_records();
    let mut first = Box::pin(all[0].enter());
    still_pending("alone", &mut first).await;
    let arrival = [Operation::Create, Operation::List, Operation::Exists];
    // A member that waits for long watches its own node.
    assert_eq!(requests(&server)[..3], arrival);
    let records = server.records();
    assert_eq!(records[0].at, records[2].at, "all are handed over before any is answered: {records:?}");
    server.clear_records();
    let (one, two) = tokio::join!(first, all[1].enter());
    one.expect("in");
    two.expect("in");
    let second: Vec<_> = requests(&server).into_iter().filter(|operation| *operation != Operation::GetData).collect();
    assert_eq!(second, [&arrival[..], &[Operation::Multi]].concat(), "all of the second");
}

#[tokio::test(start_paused = true)]
async fn no_watch_and_no_node_is_left_between_rounds() {
    let (server, clients) = setup(5).await;
    let all = members(&clients, 5);
    for _ in 0..10 {
        enter_all(&all).await;
        tokio::time::sleep(SOON).await;
        assert_eq!(server.watches(), 0, "inside nothing is watched");
        leave_all(&all).await;
        tokio::time::sleep(SOON).await;
        assert_eq!((server.watches(), server.children(super::fixture::PATH).len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_member_sends_six_heartbeats_in_a_session_timeout_inside_and_outside() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    enter_all(&all).await;
    tokio::time::sleep(SOON).await;
    server.clear_records();
    for client in &clients {
        assert_eq!(heartbeats_in_three_timeouts(&server, client).await, 3 * 6, "inside");
    }
    assert_eq!(requests(&server), [], "inside");
    leave_all(&all).await;
    tokio::time::sleep(SOON).await;
    server.clear_records();
    for client in &clients {
        assert_eq!(heartbeats_in_three_timeouts(&server, client).await, 3 * 6, "outside");
    }
    assert_eq!(requests(&server), [], "outside");
}
