//! A directory in which nodes may be made but neither seen nor deleted.

use std::time::Duration;

use zookeeper_recipes::leader_latch::LatchStatus;
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::scene::{PATH, latch, make_directory, reaches};

#[tokio::test(start_paused = true)]
async fn a_latch_that_may_neither_list_nor_delete_makes_no_further_node_and_comes_back_when_it_may() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    make_directory(&server);
    let before = ["a", "b"].map(|name| {
        let path = format!("{PATH}/{name}-latch-");
        server.create_by_hand(&path, "", CreateMode::PersistentSequential).expect("a new node")
    });
    let latch = latch(&client);
    reaches(&latch, LatchStatus::Waiting).await;
    server.until(|| server.watches() > 0).await;
    let ours = latch.our_path().expect("it has a node");
    server.deny(PATH);
    server.delete_by_hand(&before[1]).expect("it exists");
    reaches(&latch, LatchStatus::Failed).await;
    let error = latch.state().borrow().error().cloned().expect("it says why");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert!(error.to_string().contains(&ours), "{error}");
    let creates = server.count(&client, Operation::Create);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(server.count(&client, Operation::Create), creates, "no further node");
    assert_eq!(latch.state().borrow().status(), LatchStatus::Failed);

    server.allow(PATH);
    server.delete_by_hand(&before[0]).expect("it exists");
    tokio::time::sleep(Duration::from_secs(90)).await;
    reaches(&latch, LatchStatus::Leading).await;
    assert_eq!(server.children(PATH).len(), 1);
}
