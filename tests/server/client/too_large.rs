//! Requests that real servers do not read: they close the connection, perhaps with a reset, as most of the request is
//! still under way then.

use std::time::Duration;

use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::persistent_node::PersistentNode;
use zookeeper_recipes::queue::{DistributedQueue, RawBytes};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::fixture::{SOON, builder, connect};
use crate::support::{Proxy, ZooKeeper, eventually, within};

const MAX_BUFFER: usize = 64 * 1024;

/// A server with a low limit, a proxy that counts the connections, and a client that believes in another limit.
async fn setup(max_request_bytes: usize) -> (ZooKeeper, Proxy, Client) {
    let server = ZooKeeper::builder().jvm_flag(format!("-Djute.maxbuffer={MAX_BUFFER}")).start().await;
    let proxy = Proxy::start(server.addr()).await;
    let options = builder(&proxy.connect_string(), Duration::from_secs(10)).max_request_bytes(max_request_bytes);
    let client = connect(options).await;
    (server, proxy, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_too_large_for_the_servers_fails_alone() {
    let (_server, proxy, client) = setup(0xf_ffff).await;
    let producer = DistributedQueue::builder(&client, "/queue", RawBytes).build().expect("a queue").producer();
    let mutex = InterProcessMutex::new(&client, "/lock").expect("a good path");
    let large = producer.put(vec![1; 100_000]);
    let small = async {
        tokio::task::yield_now().await;
        producer.put(vec![1; 10]).await
    };
    let (large, small, held) = within("all end", SOON, async { tokio::join!(large, small, mutex.acquire()) }).await;
    let error = large.expect_err("it is too large");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    for part in ["jute.maxbuffer", "limit of 1048575 bytes", "closed the connection twice"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    small.expect("put");
    // It may have been lost with a connection.
    drop(held.expect("acquired"));
    let held = within("it is acquired", SOON, mutex.acquire()).await.expect("acquired");
    held.release().await.expect("released");
    within("it ends", SOON, producer.put(vec![1; 100_000])).await.expect_err("at once now");
    within("it is put", SOON, producer.put(vec![1; 60_000])).await.expect("put");
    assert!(proxy.accepted() <= 8, "{} connections", proxy.accepted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_too_large_for_the_servers_fails_and_leaves_the_connection_in_peace() {
    let (_server, proxy, client) = setup(16 << 20).await;
    client.create("/dir", "", CreateMode::Persistent).await.expect("created");
    let node = PersistentNode::builder(&client, "/dir/node").data(vec![1; 4 << 20]).start().expect("it starts");
    let error = within("it fails", SOON, node.created()).await.expect_err("it is too large");
    assert!(error.to_string().contains("jute.maxbuffer"), "{error}");
    // The next attempt is refused here.
    within("it fails again", SOON, node.created()).await.expect_err("it is too large");
    assert!(proxy.accepted() <= 4, "{} connections", proxy.accepted());
    within("it is written", SOON * 2, node.set_data("small")).await.expect("written");
    within("it is there", SOON, node.created()).await.expect("created");
}

/// One request for all watches would be twice as long as the server reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_restored_in_requests_that_the_servers_read() {
    let (_server, proxy, client) = setup(0xf_ffff).await;
    let dir = format!("/{}", "x".repeat(900));
    let latches: Vec<_> =
        (0..120).map(|n| LeaderLatch::builder(&client, format!("{dir}/{n}")).start().expect("it starts")).collect();
    for latch in &latches {
        within("an outcome", SOON, latch.wait_for_leadership()).await.expect("it leads");
    }
    let session = client.session_id();
    proxy.cut().await;
    eventually("all lead again", SOON, async || latches.iter().all(LeaderLatch::has_leadership)).await;
    assert_eq!(client.session_id(), session);
    assert!(proxy.accepted() <= 5, "{} connections", proxy.accepted());
}
