//! Heap bytes that a thousand waiting contenders take, on a real server.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};

use support::{ZooKeeper, unique_path};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

const WAITING: usize = 1_000;

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
    client.close().await.expect("closed");
}
