//! Heap bytes that a thousand waiting contenders take, and those of a node in a cache, on a real server.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::{Client, CreateMode};

use support::{ZooKeeper, unique_path};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

const WAITING: usize = 1_000;
/// The nodes of a cache, in directories of a hundred.
const CACHED: usize = 100_000;
const DATA: [u8; 100] = [b'x'; 100];

async fn wait_for_turn(client: &Client, path: &str, count: usize) -> Vec<LeaderLatch> {
    let mut latches = Vec::with_capacity(count);
    for _ in 0..count {
        let latch = LeaderLatch::builder(client, path).start().expect("a latch");
        let mut states = latch.state();
        let joined = |status| matches!(status, LatchStatus::Waiting | LatchStatus::Leading);
        states.wait_for(|state| joined(state.status())).await.expect("it has joined");
        latches.push(latch);
    }
    // The watches of the last ones are being armed.
    tokio::time::sleep(Duration::from_millis(500)).await;
    latches
}

/// Creates a tree; in transactions, as one by one would take long.
async fn plant(client: &Client, root: &str) {
    client.create(root, DATA, CreateMode::Persistent).await.expect("created");
    for dir in 0..CACHED / 100 {
        let dir = format!("{root}/dir-{dir:04}");
        let leaf = |transaction: zookeeper_recipes::Transaction, leaf| {
            transaction.create(&format!("{dir}/leaf-{leaf:04}"), DATA, CreateMode::Persistent)
        };
        let transaction = client.transaction().create(&dir, DATA, CreateMode::Persistent);
        (1..100).fold(transaction, leaf).commit().await.expect("created");
    }
}

/// What a node of a cache takes beside its path and data. The aim is at most 200 bytes.
async fn cached(client: &Client) {
    let root = unique_path("memory");
    plant(client, &root).await;
    // What is there once, and grows with the first requests.
    drop(Cache::tree(client, &root).start().await.expect("a cache"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = dhat::HeapStats::get().curr_bytes;
    let cache = Cache::tree(client, &root).start().await.expect("a cache");
    let after = dhat::HeapStats::get().curr_bytes;
    let now = cache.snapshot();
    let payload: usize = now.iter().map(|node| node.path().len() + node.value().map_or(0, Vec::len)).sum();
    println!(
        "memory, cache of {} nodes: {} bytes each beside path and data",
        now.len(),
        (after - before - payload) / now.len()
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let server = ZooKeeper::shared().await;
    let client = Client::builder(server.connect_string()).session_timeout(Duration::from_secs(30)).connect();
    let client = client.await.expect("a client");
    let path = unique_path("memory");
    // The first ones fill what is there once.
    let first = wait_for_turn(&client, &path, 10).await;
    let before = dhat::HeapStats::get().curr_bytes;
    let waiting = wait_for_turn(&client, &path, WAITING).await;
    let after = dhat::HeapStats::get().curr_bytes;
    println!("memory, {WAITING} waiting contenders: {} bytes each", (after - before) / WAITING);
    drop((first, waiting));
    cached(&client).await;
    client.close().await.expect("closed");
}
