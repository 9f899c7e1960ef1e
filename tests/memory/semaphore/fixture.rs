//! Shared by the tests of the semaphore: a server, a path, and helpers.

use futures::future::try_join_all;
use zookeeper_recipes::semaphore::{InterProcessSemaphore, SemaphoreGuard};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::{SOON, within};

pub(crate) const PATH: &str = "/licences";
pub(crate) const LINE: &str = "/licences/locks";
pub(crate) const LEASES: &str = "/licences/leases";
pub(crate) const COUNT: &str = "/count";

/// A server on which the directories of the semaphore exist, and so many clients.
pub(crate) async fn setup<const CLIENTS: usize>() -> (TestingServer, [Client; CLIENTS]) {
    let server = TestingServer::start();
    for path in [PATH, LINE, LEASES] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
    let clients = try_join_all((0..CLIENTS).map(|_| server.client())).await.expect("clients");
    (server, clients.try_into().expect("as many as were asked for"))
}

pub(crate) fn semaphore(client: &Client, permits: u32) -> InterProcessSemaphore {
    InterProcessSemaphore::new(client, PATH, permits).expect("a good path")
}

/// A semaphore whose permits are those of a node.
pub(crate) fn counted(client: &Client) -> InterProcessSemaphore {
    InterProcessSemaphore::builder(client, PATH).permits_from(COUNT).build().expect("good paths")
}

/// The node of the permits, with this number.
pub(crate) fn make_count(server: &TestingServer, permits: i32) {
    server.create_by_hand(COUNT, permits.to_be_bytes(), CreateMode::Persistent).expect("a new node");
}

pub(crate) fn set_count(server: &TestingServer, permits: i32) {
    server.set_data_by_hand(COUNT, permits.to_be_bytes()).expect("it exists");
}

/// So many permits, which are expected to be had soon.
pub(crate) async fn acquired(semaphore: &InterProcessSemaphore, permits: u32) -> SemaphoreGuard {
    within("the permits are acquired", SOON, semaphore.acquire(permits)).await.expect("the permits are acquired")
}

pub(crate) async fn released(guard: SemaphoreGuard) {
    within("the permits are released", SOON, guard.release()).await.expect("the permits are released");
}

/// How many nodes the line has, and how many leases there are.
pub(crate) fn nodes(server: &TestingServer) -> (usize, usize) {
    (server.children(LINE).len(), server.children(LEASES).len())
}

/// Waits until there are so many of each.
pub(crate) async fn nodes_are(server: &TestingServer, wanted: (usize, usize)) {
    server.until(|| nodes(server) == wanted).await;
}
