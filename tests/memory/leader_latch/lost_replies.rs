//! Requests and answers that get lost: never a second node, never a forgotten one.

use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};

use super::fixture::{PATH, latch, latch_at, leads_in_the_end, node_of, setup, waits};
use crate::fixture::{SOON, T, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

/// The latch leads, and its node is the only one.
async fn leads_alone(server: &TestingServer, latch: &LeaderLatch, client: &Client, case: &str) {
    let leadership = leads_in_the_end(latch).await;
    let node = node_of(latch);
    let names = server.children(latch.path());
    let paths: Vec<_> = names.iter().map(|name| format!("{}/{name}", latch.path())).collect();
    assert_eq!(paths, [node.as_str()], "{case}");
    let stat = server.stat(&node).expect("the node exists");
    assert_eq!(Some(stat.ephemeral_owner), client.session_id(), "{case}");
    assert_eq!(stat.czxid, leadership.fencing_token(), "{case}");
}

/// Waits until the reply is lost, and, if the request was carried out, its effect is there.
async fn lost(server: &TestingServer, loss: Loss, nodes: usize) {
    server.until(|| server.lost_replies() == 1).await;
    if loss == Loss::Applied {
        server.until(|| server.children(PATH).len() == nodes).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_ends_in_exactly_one_node_that_leads() {
    for loss in LOSSES {
        let case = format!("{loss:?}");
        let (server, [client]) = setup().await;
        let session = client.session_id();
        server.lose_next_reply(&client, Operation::Create, loss);
        let latch = latch(&client, "lossy");
        lost(&server, loss, 1).await;
        leads_alone(&server, &latch, &client, &case).await;
        assert_eq!(client.session_id(), session, "{case}: the session survived");
        let creates = if loss == Loss::Applied { 1 } else { 2 };
        assert_eq!(client.request_counts().creates, creates, "{case}");
        latch.close().await.expect("closed");
        assert!(server.children(PATH).is_empty(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_of_the_directory_ends_in_one_node_that_leads() {
    // The create that finds no directory, and each of those that make one.
    for before in 0..4 {
        for loss in LOSSES {
            let server = TestingServer::start();
            let client = server.client().await.expect("a client");
            let latch = latch_at(&client, "/container/below/it", "lossy");
            server.until(|| server.count(&client, Operation::Create) >= before).await;
            server.lose_next_reply(&client, Operation::Create, loss);
            leads_alone(&server, &latch, &client, &format!("{loss:?} after {before}")).await;
            assert_eq!(server.lost_replies(), 1, "{loss:?} after {before}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_listing_ends_in_one_node_at_its_place() {
    for loss in LOSSES {
        let case = format!("{loss:?}");
        let (server, [client, other]) = setup().await;
        let leader = latch(&other, "leader");
        leads_in_the_end(&leader).await;
        server.lose_next_reply(&client, Operation::List, loss);
        let waiter = latch(&client, "waiter");
        lost(&server, loss, 2).await;
        let node = waits(&waiter).await;
        assert_eq!(server.children(PATH).len(), 2, "{case}");
        assert!(leader.has_leadership() && !waiter.has_leadership(), "{case}");
        assert_eq!(client.request_counts().creates, 1, "{case}: it kept its node");
        leader.close().await.expect("closed");
        leads_alone(&server, &waiter, &client, &case).await;
        assert_eq!(waiter.our_path(), Some(node), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_watch_of_a_waiter_does_not_lose_the_change_of_leader() {
    for loss in LOSSES {
        let (server, [client, other]) = setup().await;
        let leader = latch(&other, "leader");
        leads_in_the_end(&leader).await;
        server.lose_next_reply(&client, Operation::GetData, loss);
        let waiter = latch(&client, "waiter");
        lost(&server, loss, 2).await;
        // The leader leaves while the waiter is cut off.
        leader.close().await.expect("closed");
        leads_alone(&server, &waiter, &client, &format!("{loss:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_delete_at_the_close_is_repeated_until_the_node_is_gone() {
    for loss in LOSSES {
        let (server, [client]) = setup().await;
        let session = client.session_id();
        let latch = latch(&client, "lossy");
        leads_in_the_end(&latch).await;
        server.lose_next_reply(&client, Operation::Delete, loss);
        within("the close ends", T, latch.close()).await.expect("closed");
        assert_eq!(server.lost_replies(), 1, "{loss:?}");
        assert!(server.children(PATH).is_empty(), "{loss:?}");
        assert_eq!(client.session_id(), session, "{loss:?}: the session survived");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_while_the_outcome_of_the_create_is_unknown_leaves_no_node() {
    for loss in LOSSES {
        let (server, [client]) = setup().await;
        let session = client.session_id();
        server.lose_next_reply(&client, Operation::Create, loss);
        let latch = latch(&client, "lossy");
        lost(&server, loss, 1).await;
        within("the close ends", T, latch.close()).await.expect("closed");
        // Closed means that the server has deleted the node.
        assert!(server.children(PATH).is_empty(), "{loss:?}");
        assert_eq!(client.session_id(), session, "{loss:?}: the session survived");
    }
}

#[tokio::test(start_paused = true)]
async fn a_latch_dropped_while_the_outcome_of_the_create_is_unknown_leaves_no_node() {
    for loss in LOSSES {
        let (server, [client]) = setup().await;
        let session = client.session_id();
        server.lose_next_reply(&client, Operation::Create, loss);
        let lossy = latch(&client, "lossy");
        lost(&server, loss, 1).await;
        drop(lossy);
        within("the node is gone", T, server.until(|| server.children(PATH).is_empty())).await;
        // The client deleted it, not the end of a session; and nothing comes later.
        tokio::time::sleep(SOON).await;
        assert!(server.children(PATH).is_empty(), "{loss:?}");
        assert_eq!(client.session_id(), session, "{loss:?}");
        let next = latch(&client, "next");
        leads_alone(&server, &next, &client, &format!("{loss:?}")).await;
    }
}
