//! The requests of a round, counted on the wire.

use futures::future::join_all;
use zookeeper_recipes::Client;

use super::fixture::{Fixture, SOON, member};
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enter_and_leave_cost_at_most_eight_requests_a_member() {
    const ROUNDS: u64 = 50;
    for count in [8, 32] {
        let fixture = Fixture::with_directory("requests").await;
        let clients: Vec<Client> = join_all((0..count).map(|_| fixture.client())).await;
        let before: u64 = clients.iter().map(|client| client.request_counts().total()).sum();
        let tasks = clients.iter().map(|client| {
            let barrier = member(client, &fixture.path, count);
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    barrier.enter().await.expect("in");
                    barrier.leave().await.expect("out");
                }
            })
        });
        for task in within("all rounds", SOON * 3, join_all(tasks)).await {
            task.expect("no panic");
        }
        let after: u64 = clients.iter().map(|client| client.request_counts().total()).sum();
        let cost = (after - before) as f64 / (ROUNDS * count as u64) as f64;
        println!("{count} members: {cost:.2} requests each");
        assert!(cost <= 8.0, "{count} members: {cost:.2} requests each");
    }
}
