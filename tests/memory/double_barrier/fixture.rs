//! Shared by the tests of the double barrier: a server, clients, and helpers for members.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::double_barrier::{DoubleBarrier, Error};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::{SOON, within};

pub(crate) const PATH: &str = "/jobs/barrier";
pub(crate) const READY: &str = "/jobs/barrier/ready";

/// A server on which the barrier's node exists, and so many clients.
pub(crate) async fn setup(clients: usize) -> (TestingServer, Vec<Client>) {
    let server = TestingServer::start();
    let clients = join_all((0..clients).map(|_| server.client())).await;
    make_directory(&server);
    (server, clients.into_iter().map(|client| client.expect("a client")).collect())
}

/// With it there, an enter sends what it sends from the second time on.
pub(crate) fn make_directory(server: &TestingServer) {
    for path in ["/jobs", PATH] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
}

/// One member for each client, of a barrier for so many.
pub(crate) fn members(clients: &[Client], threshold: usize) -> Vec<DoubleBarrier> {
    clients.iter().map(|client| member(client, threshold)).collect()
}

pub(crate) fn member(client: &Client, threshold: usize) -> DoubleBarrier {
    DoubleBarrier::new(client, PATH, threshold).expect("good options")
}

pub(crate) async fn enter_all(members: &[DoubleBarrier]) {
    for entered in within("all enter", SOON, join_all(members.iter().map(DoubleBarrier::enter))).await {
        entered.expect("entered");
    }
}

pub(crate) async fn leave_all(members: &[DoubleBarrier]) {
    for left in within("all leave", SOON, join_all(members.iter().map(DoubleBarrier::leave))).await {
        left.expect("left");
    }
}

/// Waits until so many members have a node.
pub(crate) async fn there_are(server: &TestingServer, members: usize) {
    server.until(|| nodes(server).len() == members).await;
}

/// The nodes of the members.
pub(crate) fn nodes(server: &TestingServer) -> Vec<String> {
    let mut names = server.children(PATH);
    names.retain(|name| name != "ready");
    names
}

/// Whether a round is open.
pub(crate) fn is_open(server: &TestingServer) -> bool {
    server.stat(READY).is_some()
}

/// A time-out with a second to take the node back.
pub(crate) const LIMIT: Duration = Duration::from_secs(8);

/// The result of a timed call, which is expected soon.
pub(crate) async fn soon(what: &str, call: impl Future<Output = Result<bool, Error>>) -> bool {
    within(what, SOON, call).await.expect("an answer")
}
