//! Requests and answers that get lost: never a second node, never a forgotten one, no data that is not written.

use std::time::Duration;

use zookeeper_recipes::persistent_node::{NodeMode, PersistentNode};
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};

use super::fixture::{DIR, FIXED, PATH, look_of, node_of, present, settle, setup};
use crate::fixture::{T, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];
const ALL: [NodeMode; 5] = [
    NodeMode::Ephemeral,
    NodeMode::EphemeralSequential,
    NodeMode::Persistent,
    NodeMode::Container,
    NodeMode::Ttl(Duration::from_secs(30)),
];

/// The node is the only one, has its data, and goes.
async fn is_alone_and_goes(server: &TestingServer, node: &PersistentNode, data: &str, case: &str) {
    let path = within("it is created", T, node.created()).await.expect("created");
    present(node).await;
    settle().await;
    let paths: Vec<_> = server.children(DIR).iter().map(|name| format!("{DIR}/{name}")).collect();
    assert_eq!(paths, [path.as_str()], "{case}");
    assert_eq!(server.get(&path).as_deref(), Some(data.as_bytes()), "{case}");
    within("it is closed", T, node.close()).await.expect("closed");
    assert!(server.children(DIR).is_empty(), "{case}");
    settle().await;
    assert!(server.children(DIR).is_empty(), "{case}: later");
}

#[tokio::test(start_paused = true)]
async fn each_lost_request_of_the_creation_ends_in_one_node() {
    for mode in ALL {
        for loss in LOSSES {
            for operation in [Operation::Create, look_of(mode)] {
                let case = format!("{mode:?}, {operation:?} {loss:?}");
                let (server, [client]) = setup().await;
                let session = client.session_id();
                server.lose_next_reply(&client, operation, loss);
                let node = node_of(&client, mode, "data");
                is_alone_and_goes(&server, &node, "data", &case).await;
                assert_eq!(server.lost_replies(), 1, "{case}");
                assert_eq!(client.session_id(), session, "{case}: the session survived");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_of_the_parents_ends_in_one_node() {
    for before in 0..5 {
        for loss in LOSSES {
            let case = format!("{loss:?} after {before}");
            let server = TestingServer::start();
            let client = server.client().await.expect("a client");
            let node = node_of(&client, NodeMode::Ephemeral, "data");
            server.until(|| server.count(&client, Operation::Create) >= before).await;
            server.lose_next_reply(&client, Operation::Create, loss);
            settle().await;
            is_alone_and_goes(&server, &node, "data", &case).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_lost_request_of_a_write_ends_with_the_data_in_the_node() {
    for mode in ALL {
        for loss in LOSSES {
            // Of an ephemeral node nothing is read but at its creation.
            let read = Some(Operation::GetData).filter(|read| look_of(mode) == *read);
            for operation in [Operation::SetData].into_iter().chain(read) {
                let case = format!("{mode:?}, {operation:?} {loss:?}");
                let (server, [client]) = setup().await;
                let node = node_of(&client, mode, "old");
                present(&node).await;
                server.lose_next_reply(&client, operation, loss);
                within("it is written", T, node.set_data("new")).await.expect("written");
                settle().await;
                assert_eq!(server.lost_replies(), 1, "{case}");
                is_alone_and_goes(&server, &node, "new", &case).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_delete_is_repeated_until_the_node_is_gone() {
    for mode in ALL {
        for loss in LOSSES {
            let case = format!("{mode:?}, {loss:?}");
            let (server, [client]) = setup().await;
            let node = node_of(&client, mode, "data");
            present(&node).await;
            server.lose_next_reply(&client, Operation::Delete, loss);
            is_alone_and_goes(&server, &node, "data", &case).await;
            assert_eq!(server.lost_replies(), 1, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_delete_does_not_hit_the_node_of_the_next() {
    let (server, [client, other]) = setup().await;
    let first = node_of(&client, NodeMode::Ephemeral, "first");
    present(&first).await;
    let second = node_of(&other, NodeMode::Ephemeral, "second");
    super::fixture::waits(&second).await;
    server.lose_next_reply(&client, Operation::Delete, Loss::Applied);
    within("it is closed", T, first.close()).await.expect("closed");
    present(&second).await;
    let czxid = server.stat(PATH).expect("it is there").czxid;
    settle().await;
    super::fixture::is_there(&server, &other, PATH, "second");
    assert_eq!(server.stat(PATH).map(|stat| stat.czxid), Some(czxid), "it was not disturbed");
}

#[tokio::test(start_paused = true)]
async fn closing_or_dropping_while_the_outcome_of_the_create_is_unknown_leaves_no_node() {
    for mode in ALL {
        for loss in LOSSES {
            for closes in [true, false] {
                let case = format!("{mode:?}, {loss:?}, close: {closes}");
                let (server, [client]) = setup().await;
                server.lose_next_reply(&client, Operation::Create, loss);
                let node = node_of(&client, mode, "data");
                server.until(|| server.lost_replies() == 1).await;
                if closes {
                    within("it is closed", T, node.close()).await.expect("closed");
                    assert!(server.children(DIR).is_empty(), "{case}");
                } else {
                    drop(node);
                }
                settle().await;
                assert!(server.children(DIR).is_empty(), "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_path_needs_one_create_after_one_that_was_carried_out() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        server.lose_next_reply(&client, Operation::Create, Loss::Applied);
        let node = node_of(&client, mode, "data");
        present(&node).await;
        let czxid = server.stat(PATH).expect("it is there").czxid;
        assert_eq!(client.request_counts().writes, 0, "{mode:?}: it has the data");
        node.close().await.expect("closed");
        assert_eq!(server.stat(PATH), None, "{mode:?}: {czxid}");
    }
}
