//! What the tests of the latch share: a path, and words for what a latch does.

use std::time::Duration;

use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::in_memory::{T, two_nodes};

pub(crate) const PATH: &str = "/elections/one";

/// With the directory there, a latch sends what it sends from the second time on.
pub(crate) fn make_directory(server: &TestingServer) {
    for path in ["/elections", PATH] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
}

pub(crate) fn latch(client: &Client) -> LeaderLatch {
    LeaderLatch::builder(client, PATH).start().expect("a good path")
}

/// A latch that waits and watches, behind two nodes of others, which are returned in their order.
pub(crate) async fn behind_two(server: &TestingServer, client: &Client) -> (LeaderLatch, [String; 2]) {
    make_directory(server);
    let before = two_nodes(server, PATH, "latch-");
    let latch = latch(client);
    reaches(&latch, LatchStatus::Waiting).await;
    server.until(|| server.watches() > 0).await;
    (latch, before)
}

/// Waits until the latch is so far.
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
