//! Shared by the tests of the read-write lock: a server, a path, and helpers.

use std::pin::Pin;

use futures::future::try_join_all;
use zookeeper_recipes::read_write_lock::{Error, InterProcessReadWriteLock, ReadGuard, WriteGuard};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::{SOON, still_pending, within};

pub(crate) const PATH: &str = "/locks/both";

/// A call that waits for a lock.
pub(crate) type Waiting<G> = Pin<Box<dyn Future<Output = Result<G, Error>>>>;

/// A server on which the directory of the lock exists, and so many clients.
pub(crate) async fn setup<const CLIENTS: usize>() -> (TestingServer, [Client; CLIENTS]) {
    let server = TestingServer::start();
    make_directory(&server);
    let clients = try_join_all((0..CLIENTS).map(|_| server.client())).await.expect("clients");
    (server, clients.try_into().expect("as many as were asked for"))
}

pub(crate) fn make_directory(server: &TestingServer) {
    for path in ["/locks", PATH] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
}

pub(crate) fn lock(client: &Client) -> InterProcessReadWriteLock {
    InterProcessReadWriteLock::new(client, PATH).expect("a good path")
}

/// The lock for reading, which is expected to be had soon.
pub(crate) async fn reading(client: &Client) -> ReadGuard {
    within("it reads", SOON, lock(client).read().acquire()).await.expect("it reads")
}

/// The lock for writing, which is expected to be had soon.
pub(crate) async fn writing(client: &Client) -> WriteGuard {
    within("it writes", SOON, lock(client).write().acquire()).await.expect("it writes")
}

/// A call that wants to read, and waits.
pub(crate) async fn waits_to_read(client: &Client) -> Waiting<ReadGuard> {
    let lock = lock(client).read();
    let mut waiting: Waiting<_> = Box::pin(async move { lock.acquire().await });
    still_pending("it waits to read", &mut waiting).await;
    waiting
}

/// A call that wants to write, and waits.
pub(crate) async fn waits_to_write(client: &Client) -> Waiting<WriteGuard> {
    let lock = lock(client).write();
    let mut waiting: Waiting<_> = Box::pin(async move { lock.acquire().await });
    still_pending("it waits to write", &mut waiting).await;
    waiting
}

/// The guard that a call gets now.
pub(crate) async fn gets<G>(waiting: Waiting<G>) -> G {
    within("its turn comes", SOON, waiting).await.expect("its turn comes")
}

/// The names of the nodes without their uuids, by their numbers.
pub(crate) fn line(server: &TestingServer) -> Vec<String> {
    let mut names: Vec<_> = server.children(PATH).iter().map(|name| name[40..].to_owned()).collect();
    names.sort_by_key(|name| name[8..].to_owned());
    names
}

/// Waits until there are this many nodes.
pub(crate) async fn line_has(server: &TestingServer, length: usize) {
    server.until(|| server.children(PATH).len() == length).await;
}
