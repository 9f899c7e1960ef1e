//! A session that the client must consider over while the servers still have it.

use zookeeper_recipes::leader_latch::LatchStatus;
use zookeeper_recipes::testing::{Data, TestingServer};

use super::scene::{PATH, latch, make_directory, reaches};
use crate::in_memory::T;

#[tokio::test(start_paused = true)]
async fn the_node_of_a_session_that_was_given_up_is_deleted_through_the_next_one() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    make_directory(&server);
    let latch = latch(&client);
    reaches(&latch, LatchStatus::Leading).await;
    let (old, session) = (latch.our_path().expect("a node"), client.session_id());
    // Time stands still for sessions while the servers are stopped.
    server.stop();
    server.until(|| client.session_id() != session).await;
    server.restart(Data::Kept);
    assert_eq!(server.children(PATH).len(), 1, "the servers know of nothing yet");
    let begun = tokio::time::Instant::now();
    reaches(&latch, LatchStatus::Leading).await;
    server.until(|| server.stat(&old).is_none()).await;
    assert!(begun.elapsed() < T / 2, "the servers did not do it");
}
