//! An id that the servers do not read, because their `jute.maxbuffer` is lower than the client believes.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::{RecordKind, TestingServer};

use super::fixture::{PATH, reaches, reaches_within};

#[tokio::test(start_paused = true)]
async fn the_latch_fails_and_its_client_is_left_in_peace() {
    let server = TestingServer::start();
    server.max_buffer(32 * 1024);
    let client = server.client().await.expect("a client");
    let latch = LeaderLatch::builder(&client, PATH).id("x".repeat(60_000)).start().expect("it starts");
    reaches(&latch, LatchStatus::Failed).await;
    let error = latch.state().get().error().cloned().expect("it says why");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("jute.maxbuffer"), "{error}");
    let other = LeaderLatch::builder(&client, "/latches/other").id("small").start().expect("it starts");
    reaches(&other, LatchStatus::Leading).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let lost = server.records().iter().filter(|record| record.what == RecordKind::Disconnected).count();
    assert!((2..=5).contains(&lost), "{lost} losses in ten minutes");
    server.max_buffer(1 << 20);
    // One attempt in some minutes gets through.
    reaches_within(&latch, LatchStatus::Leading, Duration::from_secs(1_200)).await;
}
