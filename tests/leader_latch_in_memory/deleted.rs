//! Nodes deleted by hand.

use std::time::Duration;

use zookeeper_recipes::leader_latch::LatchStatus;
use zookeeper_recipes::testing::{Operation, TestingServer};

use super::scene::{PATH, behind_two, latch, make_directory, reaches};

#[tokio::test(start_paused = true)]
async fn a_directory_that_goes_while_a_waiter_lists_it_is_made_again_and_that_is_no_failure() {
    let server = TestingServer::builder().latency(Duration::from_millis(5)..=Duration::from_millis(5)).start();
    let client = server.client().await.expect("a client");
    let (latch, before) = behind_two(&server, &client).await;
    let lists = server.count(&client, Operation::List);
    server.delete_by_hand(&before[1]).expect("it exists");
    server.until(|| server.count(&client, Operation::List) > lists).await;
    // The list is on its way.
    for node in server.children(PATH) {
        server.delete_by_hand(&format!("{PATH}/{node}")).expect("it exists");
    }
    server.delete_by_hand(PATH).expect("it is empty");
    let mut states = latch.state();
    let led = tokio::time::timeout(crate::in_memory::SOON, async {
        loop {
            let status = states.borrow_and_update().status();
            assert_ne!(status, LatchStatus::Failed, "nothing is wrong");
            if status == LatchStatus::Leading {
                return;
            }
            states.changed().await.expect("the latch is open");
        }
    });
    led.await.expect("it leads in its new place, with no delay after a failure");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_further_back_whose_node_is_deleted_finds_out_when_the_one_before_it_goes() {
    let server = TestingServer::start();
    make_directory(&server);
    let mut latches = Vec::new();
    for _ in 0..4 {
        let client = server.client().await.expect("a client");
        let latch = latch(&client);
        reaches(&latch, if latches.is_empty() { LatchStatus::Leading } else { LatchStatus::Waiting }).await;
        latches.push(latch);
    }
    let node = latches[2].our_path().expect("it has a node");
    server.delete_by_hand(&node).expect("it exists");
    // The one behind it looks at the line, and stands behind the second now.
    tokio::time::sleep(crate::in_memory::SOON).await;
    assert_eq!(server.children(PATH).len(), 3);
    let mut latches = latches.into_iter();
    let (first, second, third, last) =
        (latches.next().unwrap(), latches.next().unwrap(), latches.next().unwrap(), latches.next().unwrap());
    first.close().await.expect("closed");
    reaches(&second, LatchStatus::Leading).await;
    second.close().await.expect("closed");
    // Both had the second before them. The last of the line leads, and the third enters again behind it.
    reaches(&last, LatchStatus::Leading).await;
    server.until(|| server.children(PATH).len() == 2).await;
    assert!(!third.has_leadership());
    assert_ne!(third.our_path(), Some(node));
    last.close().await.expect("closed");
    reaches(&third, LatchStatus::Leading).await;
}
