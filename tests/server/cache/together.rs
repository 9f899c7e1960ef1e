//! Many nodes in one request.

use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::cache::Cache;

use super::fixture::*;
use crate::fixture::{builder, connect};

const NODES: usize = 200;

/// Creates the nodes, each with its name in so many bytes.
async fn fill(fixture: &Fixture, length: usize) {
    fixture.observer.create(&fixture.path, b"").await;
    for number in 0..NODES {
        let data = format!("{number:0length$}");
        fixture.observer.create(&format!("{}/{number:03}", fixture.path), data.as_bytes()).await;
    }
}

/// Reads all of them. Returns how many requests that took.
async fn read_all(fixture: &Fixture, client: &Client) -> u64 {
    let before = client.request_counts();
    let cache = start(Cache::children(client, &fixture.path)).await;
    let snapshot = cache.snapshot();
    assert_eq!(snapshot.len(), NODES);
    for node in snapshot.iter() {
        let data = String::from_utf8(node.value().expect("data").clone()).expect("text");
        assert_eq!(data.parse::<usize>().ok(), node.name().parse().ok(), "its own, and not that of another node");
    }
    (client.request_counts() - before).reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_read_64_with_each_request() {
    let fixture = Fixture::new("together").await;
    fill(&fixture, 3).await;
    // And one for the root.
    assert_eq!(read_all(&fixture, &fixture.client().await).await, NODES.div_ceil(64) as u64 + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_whose_answer_would_be_too_long_together_are_read_one_by_one() {
    let fixture = Fixture::new("too-long-together").await;
    fill(&fixture, 5_000).await;
    let options = builder(&fixture.server.connect_string(), Duration::from_secs(10)).max_response_bytes(100_000);
    let refused = NODES / 64;
    let requests = read_all(&fixture, &connect(options).await).await;
    // One more for the root, and one for the nodes that are left.
    assert_eq!(requests, (refused + refused * 64 + 2) as u64);
}
