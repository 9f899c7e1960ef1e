//! What the tests of the latch share: a path, and words for what a latch does.

use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

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

/// Waits until the latch is so far.
pub(crate) async fn reaches(latch: &LeaderLatch, status: LatchStatus) {
    let reached = tokio::time::timeout(crate::in_memory::T, async {
        let mut states = latch.state();
        states.wait_for(|state| state.status() == status).await.map(drop)
    });
    let reached = reached.await.unwrap_or_else(|_| panic!("the latch is not {status:?} but {latch:?}"));
    reached.expect("the latch is open");
}
