//! Requests to the participants of a latch.

use std::time::Duration;

use zookeeper_recipes::inspect::Recipe;
use zookeeper_recipes::leader_latch::{LeaderLatch, ask_to_resign};
use zookeeper_recipes::testing::TestingServer;

use super::{at, paths, tree, two_clients};
use crate::fixture::{SOON, within};

#[tokio::test(start_paused = true)]
async fn a_request_to_a_latch_is_a_plain_node_beside_its_line() {
    let server = TestingServer::start();
    let [one, two] = two_clients(&server).await;
    let latch = LeaderLatch::builder(&one, "/app/leader").id("me").revocable(Duration::MAX).start().expect("a latch");
    latch.wait_for_leadership().await.expect("it leads");
    within("it can be asked", SOON, server.until(|| server.children("/app/leader-requests").len() == 1)).await;
    let node = latch.our_path().expect("it leads");
    ask_to_resign(&two, &node).await.expect("asked");
    let tree = tree(&two, "/app").await;
    let request = node.replace("/app/leader/", "/app/leader-requests/") + "-request";
    assert_eq!(paths(&tree), ["/app", "/app/leader", "/app/leader-requests", &request]);
    let Recipe::Line(line) = at(&tree, "/app/leader") else { panic!("a line: {tree}") };
    assert_eq!(line.places.len(), 1);
    assert!(tree.nodes[2].recipes.is_empty(), "{tree}");
}
