//! A delete without a version whose answer is lost.

use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind, RetryPolicy};

use crate::fixture::{SOON, T, requests, within};

const PATH: &str = "/node";

/// A client with a node that it has created.
async fn with_node(server: &TestingServer, retry: RetryPolicy) -> Client {
    let client = Client::builder_for_testing(server).session_timeout(T).retry(retry).connect().await.expect("a client");
    client.create(PATH, b"", CreateMode::Persistent).await.expect("created");
    client
}

fn created_by_another(server: &TestingServer) -> i64 {
    server.create_by_hand(PATH, "another's", CreateMode::Persistent).expect("a new node");
    server.stat(PATH).expect("it is there").czxid
}

#[tokio::test(start_paused = true)]
async fn a_delete_costs_one_request_and_after_a_lost_answer_a_look() {
    let server = TestingServer::start();
    let client = with_node(&server, RetryPolicy::default()).await;
    let lossy: [(_, &[Operation]); 3] = [
        (None, &[Operation::Delete]),
        (Some(Loss::Applied), &[Operation::Delete, Operation::Exists]),
        (Some(Loss::NotApplied), &[Operation::Delete, Operation::Exists, Operation::Delete]),
    ];
    for (loss, expected) in lossy {
        server.clear_records();
        if let Some(loss) = loss {
            server.lose_next_reply(&client, Operation::Delete, loss);
        }
        within("deleted", T, client.delete(PATH, None)).await.expect("deleted");
        let confirmed = |operation: &Operation| *operation != Operation::Multi;
        assert_eq!(requests(&server).into_iter().filter(confirmed).collect::<Vec<_>>(), expected, "{loss:?}");
        assert_eq!(server.stat(PATH), None);
        client.create(PATH, b"", CreateMode::Persistent).await.expect("created");
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_client_has_created_since_is_not_deleted() {
    let server = TestingServer::start();
    let client = with_node(&server, RetryPolicy::default()).await;
    server.lose_next_reply(&client, Operation::Delete, Loss::Applied);
    let deleting = tokio::spawn(async move { client.delete(PATH, None).await });
    server.until(|| server.stat(PATH).is_none()).await;
    let another = created_by_another(&server);
    let error = within("an answer", T, deleting).await.expect("no panic").expect_err("it cannot know");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(server.stat(PATH).map(|stat| stat.czxid), Some(another));
}

/// The client has heard nothing of the servers since the node was created, which may be another one than it means.
#[tokio::test(start_paused = true)]
async fn a_node_that_the_client_did_not_know_of_is_left_alone() {
    let server = TestingServer::start();
    let client = with_node(&server, RetryPolicy::default()).await;
    client.delete(PATH, None).await.expect("deleted");
    let another = created_by_another(&server);
    server.lose_next_reply(&client, Operation::Delete, Loss::NotApplied);
    let error = within("an answer", T, client.delete(PATH, None)).await.expect_err("it cannot know");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(server.stat(PATH).map(|stat| stat.czxid), Some(another));
    assert_eq!(server.count(&client, Operation::Delete), 2);
}

#[tokio::test(start_paused = true)]
async fn the_policy_decides_whether_a_lost_delete_is_followed_by_anything() {
    let server = TestingServer::start();
    let client = with_node(&server, RetryPolicy::never()).await;
    for loss in [Loss::NotApplied, Loss::Applied] {
        server.clear_records();
        server.lose_next_reply(&client, Operation::Delete, loss);
        let error = within("an answer", T, client.delete(PATH, None)).await.expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        assert_eq!(server.count(&client, Operation::Exists), 0);
        within("connected", T, server.until(|| client.connection_state().is_connected())).await;
    }
}

/// A delete of a session that was given up may still arrive. The servers carry out none of an expired session.
#[tokio::test(start_paused = true)]
async fn in_another_session_a_delete_is_repeated_only_if_the_former_one_has_expired() {
    for expired in [true, false] {
        let server = TestingServer::start();
        let client = with_node(&server, RetryPolicy::forever(SOON)).await;
        let session = client.session_id();
        server.lose_next_reply(&client, Operation::Delete, Loss::NotApplied);
        let deleting = {
            let client = client.clone();
            tokio::spawn(async move { client.delete(PATH, None).await })
        };
        server.until(|| server.lost_replies() == 1).await;
        server.refuse(&client);
        if expired {
            server.expire_session(&client);
        } else {
            within("given up", T * 2, server.until(|| client.session_id() != session)).await;
        }
        server.heal();
        let outcome = within("an answer", T * 3, deleting).await.expect("no panic").map_err(|error| error.kind());
        assert_eq!(outcome, if expired { Ok(()) } else { Err(ErrorKind::OutcomeUnknown) });
        assert_ne!(client.session_id(), session);
        assert_eq!(server.stat(PATH).is_none(), expired);
    }
}
