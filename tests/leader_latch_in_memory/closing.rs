//! The end of a latch that leads: at once, and by one request.

use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::LatchStatus;
use zookeeper_recipes::testing::TestingServer;

use super::scene::{latch, make_directory, reaches};

#[tokio::test(start_paused = true)]
async fn a_dropped_latch_leads_no_more_and_its_delete_is_ahead_of_later_requests() {
    let server = TestingServer::start();
    make_directory(&server);
    let client = Client::builder_for(&server).connect().await.expect("a client");
    let leader = latch(&client);
    reaches(&leader, LatchStatus::Leading).await;
    let leadership = leader.wait_for_leadership().await.expect("it leads");
    let node = leader.our_path().expect("a node");
    drop(leader);
    // No task has run since.
    assert!(!leadership.is_held());
    assert_eq!(client.exists(&node).await.expect("an answer"), None);
}

#[tokio::test(start_paused = true)]
async fn closing_a_leader_costs_one_request() {
    let server = TestingServer::start();
    make_directory(&server);
    let client = Client::builder_for(&server).connect().await.expect("a client");
    let leader = latch(&client);
    reaches(&leader, LatchStatus::Leading).await;
    // Its own node is watched now.
    client.exists("/").await.expect("an answer");
    let before = client.request_counts();
    leader.close().await.expect("closed");
    let after = client.request_counts();
    assert_eq!((after.total() - before.total(), after.deletes - before.deletes), (1, 1));
}
