//! Shared by the tests of the latch: a path, and helpers for latches.

use std::time::Duration;

use futures::future::try_join_all;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

pub(crate) use crate::fixture::name_of;
use crate::fixture::{SOON, T, two_nodes, within};
pub(crate) use crate::latches::*;
pub(crate) use crate::states::{States, was_cut_off_and_came_back};

pub(crate) const PATH: &str = "/elections/one";

/// With the directory there, a latch sends what it sends from the second time on.
pub(crate) fn make_directory(server: &TestingServer) {
    for path in ["/elections", PATH] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
}

/// A server on which the directory of the election exists, and so many clients.
pub(crate) async fn setup<const CLIENTS: usize>() -> (TestingServer, [Client; CLIENTS]) {
    let server = TestingServer::start();
    make_directory(&server);
    let clients = try_join_all((0..CLIENTS).map(|_| server.client())).await.expect("clients");
    (server, clients.try_into().expect("as many as were asked for"))
}

pub(crate) fn latch(client: &Client, id: &str) -> LeaderLatch {
    latch_at(client, PATH, id)
}

pub(crate) fn latch_at(client: &Client, path: &str, id: &str) -> LeaderLatch {
    LeaderLatch::builder(client, path).id(id).start().expect("the latch starts")
}

/// A latch that can be asked to resign, and leads for `grace` after that.
pub(crate) fn revocable(client: &Client, id: &str, grace: Duration) -> LeaderLatch {
    let latch = LeaderLatch::builder(client, PATH).id(id).revocable(grace);
    latch.start().expect("the latch starts")
}

/// Where requests to this participant are written.
pub(crate) fn request_of(node: &str) -> String {
    format!("{PATH}-requests/{}-request", name_of(node))
}

/// Waits until the latch has a node and can be asked to resign. Returns the node.
pub(crate) async fn can_be_asked(server: &TestingServer, latch: &LeaderLatch) -> String {
    let accepts = |node: &String| server.stat(&request_of(node)).is_some();
    within("it can be asked", SOON, server.until(|| latch.our_path().as_ref().is_some_and(accepts))).await;
    node_of(latch)
}

/// A line of revocable latches without a grace period, one for each client.
pub(crate) async fn revocable_line(server: &TestingServer, clients: &[Client], ids: &[&str]) -> Vec<LeaderLatch> {
    let mut line = Vec::new();
    for (client, id) in clients.iter().zip(ids) {
        let latch = revocable(client, id, Duration::ZERO);
        can_be_asked(server, &latch).await;
        line.push(latch);
    }
    leads(&line[0]).await;
    line
}

/// The path of the node of a latch that has one.
pub(crate) fn node_of(latch: &LeaderLatch) -> String {
    latch.our_path().expect("it has a node")
}

/// A latch that waits and watches, behind two nodes of others, which are returned in their order.
pub(crate) async fn behind_two(server: &TestingServer, client: &Client) -> (LeaderLatch, [String; 2]) {
    make_directory(server);
    let before = two_nodes(server, PATH, "latch-");
    let latch = latch(client, "behind");
    reaches(&latch, LatchStatus::Waiting).await;
    server.until(|| server.watches() > 0).await;
    (latch, before)
}

/// Waits until the latch has this status, within a session timeout.
pub(crate) async fn reaches(latch: &LeaderLatch, status: LatchStatus) {
    reaches_within(latch, status, T).await;
}

/// As `reaches`, but it may take longer.
pub(crate) async fn reaches_within(latch: &LeaderLatch, status: LatchStatus, limit: Duration) {
    let reached = tokio::time::timeout(limit, async {
        let mut states = latch.state();
        states.wait_for(|state| state.status() == status).await.map(drop)
    });
    let reached = reached.await.unwrap_or_else(|_| panic!("the latch is not {status:?} but {latch:?}"));
    reached.expect("the latch is open");
}
