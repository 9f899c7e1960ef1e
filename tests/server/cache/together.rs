//! Small nodes that have changed are read with one request.

use std::time::Duration;

use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::*;
use crate::support::{Fault, How, OpCode, Proxy, within};

const NODES: usize = 80;
const MULTI_READ: OpCode = OpCode::Other(22);

/// The data of a node: its number in so many bytes, beginning with a mark.
fn data(mark: char, number: usize, length: usize) -> String {
    format!("{mark}{number:0length$}")
}

async fn fill(client: &Client, path: &str) {
    client.create(path, "", CreateMode::Persistent).await.expect("created");
    let create = |all: zookeeper_recipes::Transaction, number: usize| {
        all.create(&format!("{path}/{number:02}"), data('a', number, 1), CreateMode::Persistent)
    };
    (0..NODES).fold(client.transaction(), create).commit().await.expect("created");
}

/// Writes all of them in one transaction, of which the events arrive at once, and waits until the cache has them.
/// Returns how many reads that took.
async fn write_all(scene: &Scene, mark: char, length: usize) -> u64 {
    let Scene { writer, proxy, client, cache, .. } = scene;
    let before = client.request_counts().reads;
    let write = |all: zookeeper_recipes::Transaction, number: usize| {
        all.set_data(&format!("{}/{number:02}", cache.path()), data(mark, number, length), None)
    };
    proxy.set(Fault::HoldAnswers).await;
    (0..NODES).fold(writer.transaction(), write).commit().await.expect("written");
    proxy.set(Fault::Pass).await;
    let snapshot = synced(cache).await;
    let seen: Vec<String> =
        snapshot.iter().map(|node| String::from_utf8_lossy(node.value().expect("data")).into()).collect();
    let expected: Vec<_> = (0..NODES).map(|number| data(mark, number, length)).collect();
    assert_eq!(seen, expected);
    client.request_counts().reads - before
}

struct Scene {
    /// Keeps the server.
    _fixture: Fixture,
    writer: Client,
    proxy: Proxy,
    client: Client,
    cache: Cache<Bytes>,
}

/// A cache of many small nodes, of a client that takes answers of so many bytes.
async fn scene(name: &str, longest: usize) -> Scene {
    let fixture = Fixture::new(name).await;
    let writer = fixture.client().await;
    fill(&writer, &fixture.path).await;
    let proxy = Proxy::start(fixture.server.addr()).await;
    let options = builder(&proxy.connect_string(), Duration::from_secs(10)).max_response_bytes(longest);
    let client = connect(options).await;
    let cache = start(Cache::children(&client, &fixture.path)).await;
    // Their sizes were not known before.
    assert_eq!(client.request_counts().reads, NODES as u64 + 1);
    Scene { _fixture: fixture, writer, proxy, client, cache }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_nodes_that_have_changed_are_read_with_few_requests() {
    let scene = scene("together", 1 << 20).await;
    for mark in ['b', 'c'] {
        let reads = write_all(&scene, mark, 3).await;
        assert!((NODES as u64 / 16..=NODES as u64 / 2).contains(&reads), "{reads}");
    }
    // They were small, and are not any longer.
    write_all(&scene, 'd', 2_000).await;
    assert_eq!(write_all(&scene, 'e', 2_000).await, NODES as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_have_grown_too_large_to_be_read_together_are_read_one_by_one() {
    let scene = scene("grown", 1 << 16).await;
    // Five at most fit into an answer.
    let reads = write_all(&scene, 'b', 12_000).await;
    assert!(reads >= NODES as u64 / 2, "{reads}");
    assert_eq!(scene.cache.last_error(), None);
}

/// Nor is a request of the group taken for one on which servers close the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_whose_common_answer_is_lost_are_read_one_by_one() {
    let scene = scene("lost", 1 << 20).await;
    let session = scene.client.session_id();
    for mark in ['b', 'c', 'd'] {
        let lost = scene.proxy.lose_reply_of(MULTI_READ, How::Fin);
        assert!(write_all(&scene, mark, 3).await >= NODES as u64);
        assert!(lost.has_fired());
    }
    let node = format!("{}/00", scene.cache.path());
    within("it is written", SOON, scene.client.set(&node, [0; 8_000], None)).await.expect("nothing is suspected");
    assert_eq!(scene.client.session_id(), session);
}
