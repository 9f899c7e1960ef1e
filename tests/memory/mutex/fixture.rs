//! Shared by the tests of the mutex: a server, a path, and helpers for mutexes.

use zookeeper_recipes::Client;
use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};
use zookeeper_recipes::testing::TestingServer;

use crate::fixture::{SOON, within};

pub(crate) const PATH: &str = "/locks/one";

/// A server on which the directory of the lock exists, and two clients.
pub(crate) async fn setup() -> (TestingServer, Client, Client) {
    let server = TestingServer::start();
    let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    make_directory(&server);
    (server, one, two)
}

/// With it there, an acquire sends what it sends from the second time on.
pub(crate) fn make_directory(server: &TestingServer) {
    for path in ["/locks", PATH] {
        server.create_by_hand(path, "", zookeeper_recipes::CreateMode::Persistent).expect("a new node");
    }
}

pub(crate) fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, PATH).expect("a good path")
}

/// The lock, which is expected to be had soon.
pub(crate) async fn acquired(mutex: &InterProcessMutex) -> MutexGuard {
    let guard = within("the lock is acquired", SOON, mutex.acquire()).await;
    guard.expect("the lock is acquired")
}

pub(crate) async fn released(guard: MutexGuard) {
    within("the lock is released", SOON, guard.release()).await.expect("the lock is released");
}

/// The names of the nodes, in order.
pub(crate) fn line(server: &TestingServer) -> Vec<String> {
    let mut names = server.children(PATH);
    names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
    names
}

/// Waits until there are this many nodes.
pub(crate) async fn line_has(server: &TestingServer, length: usize) {
    server.until(|| server.children(PATH).len() == length).await;
}
