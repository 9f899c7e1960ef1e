//! Shared by the tests of the multi-lock: a server, paths, and helpers.

use futures::future::try_join_all;
use zookeeper_recipes::multi_lock::{InterProcessMultiLock, MultiLockGuard};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::{SOON, within};

pub(crate) const PATHS: [&str; 3] = ["/locks/a", "/locks/b", "/locks/c"];

/// A server on which the directories of the locks exist, and so many clients.
pub(crate) async fn setup<const CLIENTS: usize>() -> (TestingServer, [Client; CLIENTS]) {
    let server = TestingServer::start();
    for path in ["/locks"].into_iter().chain(PATHS) {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
    let clients = try_join_all((0..CLIENTS).map(|_| server.client())).await.expect("clients");
    (server, clients.try_into().expect("as many as were asked for"))
}

pub(crate) fn locks(client: &Client) -> InterProcessMultiLock {
    InterProcessMultiLock::new(client, PATHS).expect("good paths")
}

pub(crate) fn mutex(client: &Client, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).expect("a good path")
}

/// All of them, which are expected to be had soon.
pub(crate) async fn acquired(client: &Client) -> MultiLockGuard {
    within("they are acquired", SOON, locks(client).acquire()).await.expect("they are acquired")
}

/// How many nodes each lock has.
pub(crate) fn lines(server: &TestingServer) -> [usize; 3] {
    PATHS.map(|path| server.children(path).len())
}

pub(crate) async fn lines_have(server: &TestingServer, lengths: [usize; 3]) {
    server.until(|| lines(server) == lengths).await;
}
