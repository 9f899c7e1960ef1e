//! Shared by the tests of the atomic number: a server, a path, and helpers.

use futures::future::try_join_all;
use zookeeper_recipes::atomic_long::{Added, DistributedAtomicLong, Error};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

pub(crate) const PATH: &str = "/counters/hits";

/// A server, and so many clients.
pub(crate) async fn setup<const CLIENTS: usize>() -> (TestingServer, [Client; CLIENTS]) {
    let server = TestingServer::start();
    let clients = try_join_all((0..CLIENTS).map(|_| server.client())).await.expect("clients");
    (server, clients.try_into().expect("as many as were asked for"))
}

/// As [`setup`], with a number that is there before.
pub(crate) async fn setup_with<const CLIENTS: usize>(number: i64) -> (TestingServer, [Client; CLIENTS]) {
    let (server, clients) = setup().await;
    server.create_by_hand("/counters", "", CreateMode::Persistent).expect("a new node");
    server.create_by_hand(PATH, number.to_be_bytes(), CreateMode::Persistent).expect("a new node");
    (server, clients)
}

pub(crate) fn number(client: &Client) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, PATH).expect("a good path")
}

/// What the node holds; `None` if there is no node, or no number in it.
pub(crate) fn held(server: &TestingServer) -> Option<i64> {
    server.get(PATH).and_then(|data| data.try_into().ok()).map(i64::from_be_bytes)
}

/// The nodes of the handles.
pub(crate) fn writers(server: &TestingServer) -> Vec<String> {
    server.children(PATH).into_iter().map(|name| format!("{PATH}/{name}")).collect()
}

pub(crate) fn pair(added: Added) -> (i64, i64) {
    (added.before, added.after)
}

pub(crate) fn assert_unknown(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(!error.is_retryable() && !error.is_lost(), "{error}");
    assert!(error.to_string().contains(PATH), "{error}");
}
