//! Sessions that end: the node comes back, at the same path, with the latest data, and only once.

use zookeeper_recipes::persistent_node::{NodeMode, PersistentNode};
use zookeeper_recipes::testing::{Data, Loss, Operation};

use super::fixture::{DIR, FIXED, PATH, is_there, node, node_of, present, settle, setup, waits};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn the_node_comes_back_in_each_of_five_sessions_with_the_latest_data() {
    for mode in [NodeMode::Ephemeral, NodeMode::EphemeralSequential] {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "0");
        let path = node.created().await.expect("created");
        for round in 1..=5 {
            present(&node).await;
            let data = round.to_string();
            node.set_data(data.clone()).await.expect("written");
            let session = client.session_id();
            assert!(server.expire_session(&client));
            server.until(|| client.session_id().is_some() && client.session_id() != session).await;
            let back = || server.stat(&path).is_some_and(|stat| Some(stat.ephemeral_owner) == client.session_id());
            within("it is back", T, server.until(back)).await;
            is_there(&server, &client, &path, &data);
            assert_eq!(server.children(DIR).len(), 1, "{mode:?}, {round}");
            assert_eq!(node.path().as_deref(), Some(&*path), "{mode:?}, {round}");
        }
        present(&node).await;
        node.close().await.expect("closed");
        assert!(server.children(DIR).is_empty(), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lasting_node_survives_the_session_untouched() {
    for mode in [NodeMode::Persistent, NodeMode::Container] {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "ours");
        present(&node).await;
        server.set_data_by_hand(PATH, "theirs").expect("it is there");
        let before = server.stat(PATH);
        let session = client.session_id();
        server.expire_session(&client);
        server.until(|| client.session_id().is_some() && client.session_id() != session).await;
        settle().await;
        present(&node).await;
        assert_eq!(server.stat(PATH), before, "{mode:?}");
        node.close().await.expect("closed");
        assert_eq!(server.stat(PATH), None, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_lost_with_the_create_in_doubt_ends_in_one_node() {
    for mode in [FIXED.as_slice(), &[NodeMode::EphemeralSequential]].concat() {
        for loss in [Loss::Applied, Loss::NotApplied] {
            let (server, [client]) = setup().await;
            server.lose_next_reply(&client, Operation::Create, loss);
            let node = node_of(&client, mode, "data");
            server.until(|| server.lost_replies() == 1).await;
            server.expire_session(&client);
            present(&node).await;
            settle().await;
            assert_eq!(server.children(DIR).len(), 1, "{mode:?}, {loss:?}");
            node.close().await.expect("closed");
            assert!(server.children(DIR).is_empty(), "{mode:?}, {loss:?}");
        }
    }
}

/// The client must consider its session over while the servers still have it: time is paused for sessions while the
/// servers are stopped.
async fn given_up(
    mode: NodeMode,
) -> (zookeeper_recipes::testing::TestingServer, zookeeper_recipes::Client, PersistentNode) {
    let (server, [client]) = setup().await;
    let node = node_of(&client, mode, "data");
    present(&node).await;
    let session = client.session_id();
    server.stop();
    server.until(|| client.session_id() != session).await;
    server.restart(Data::Kept);
    assert_eq!(server.children(DIR).len(), 1, "the servers know of nothing yet");
    (server, client, node)
}

#[tokio::test(start_paused = true)]
async fn the_node_of_a_session_that_was_given_up_is_waited_for() {
    let (server, client, node) = given_up(NodeMode::Ephemeral).await;
    let old = server.stat(PATH).expect("it is there");
    waits(&node).await;
    assert_eq!(server.stat(PATH), Some(old), "not adopted, not written");
    // The servers end the old session.
    present(&node).await;
    assert_ne!(server.stat(PATH).map(|stat| stat.ephemeral_owner), Some(old.ephemeral_owner));
    is_there(&server, &client, PATH, "data");
}

#[tokio::test(start_paused = true)]
async fn a_numbered_node_of_a_session_that_was_given_up_is_replaced_at_once() {
    let (server, client, node) = given_up(NodeMode::EphemeralSequential).await;
    let path = node.path().expect("it was created");
    let back = || server.stat(&path).is_some_and(|stat| Some(stat.ephemeral_owner) == client.session_id());
    server.until(|| client.session_id().is_some()).await;
    within("it is replaced", SOON, server.until(back)).await;
    settle().await;
    assert_eq!(server.children(DIR).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_close_waits_for_the_node_of_a_session_that_was_given_up() {
    for mode in [NodeMode::Ephemeral, NodeMode::EphemeralSequential] {
        for waiting in [true, false] {
            let (server, client, node) = given_up(mode).await;
            if waiting {
                server.until(|| client.session_id().is_some()).await;
                tokio::time::sleep(SOON).await;
            }
            within("it is closed", T * 2, node.close()).await.expect("closed");
            assert!(server.children(DIR).is_empty(), "{mode:?}, {waiting}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_node_comes_back_after_the_servers_lost_their_data() {
    let (server, [client]) = setup().await;
    let node = node(&client, "data");
    present(&node).await;
    server.restart(Data::Lost);
    server.until(|| server.stat(PATH).is_some()).await;
    present(&node).await;
    is_there(&server, &client, PATH, "data");
}
