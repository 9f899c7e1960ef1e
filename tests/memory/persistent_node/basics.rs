//! What a node is like, and that it goes.

use zookeeper_recipes::Client;
use zookeeper_recipes::persistent_node::{NodeMode, NodeState, PersistentNode};
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{DIR, FIXED, PATH, is_there, node, node_of, present, settle, setup};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn a_node_is_there_with_its_data_and_gone_after_the_close() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "10.0.0.1:80");
        assert_eq!(node.path(), None, "{mode:?}");
        assert_eq!(within("it is created", SOON, node.created()).await.as_deref(), Ok(PATH), "{mode:?}");
        assert_eq!(node.path().as_deref(), Some(PATH), "{mode:?}");
        present(&node).await;
        let stat = server.stat(PATH).expect("it is there");
        let owner = if mode == NodeMode::Ephemeral { client.session_id() } else { Some(0) };
        assert_eq!(Some(stat.ephemeral_owner), owner, "{mode:?}");
        assert_eq!(server.get(PATH).as_deref(), Some(&b"10.0.0.1:80"[..]), "{mode:?}");
        node.close().await.expect("closed");
        assert_eq!(server.stat(PATH), None, "{mode:?}");
        assert_eq!(node.state().get(), NodeState::Closed, "{mode:?}");
        // A second close changes nothing.
        node.close().await.expect("closed");
        assert_eq!(node.path().as_deref(), Some(PATH), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drop_deletes_the_node_in_the_background() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "");
        present(&node).await;
        drop(node);
        within("the node is gone", SOON, server.until(|| server.stat(PATH).is_none())).await;
        within("no watch is left", SOON, server.until(|| server.watches() == 0)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_starts_without_a_connection_and_the_node_appears_with_the_server() {
    let (server, [client]) = setup().await;
    server.stop();
    let node = node(&client, "early");
    tokio::time::sleep(SOON).await;
    assert!(!node.state().get().is_present());
    server.restart(zookeeper_recipes::testing::Data::Kept);
    present(&node).await;
    is_there(&server, &client, PATH, "early");
}

#[tokio::test(start_paused = true)]
async fn new_data_is_written_and_counts_for_the_next_creation() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "first");
        // Before the node is there, it is created with the latest data, or written again.
        node.set_data("second").await.expect("written");
        assert_eq!(server.get(PATH).as_deref(), Some(&b"second"[..]), "{mode:?}");
        node.set_data("third").await.expect("written");
        assert_eq!(server.get(PATH).as_deref(), Some(&b"third"[..]), "{mode:?}");
        server.delete_by_hand(PATH).expect("it was there");
        within("it is there again", SOON, server.until(|| server.stat(PATH).is_some())).await;
        assert_eq!(server.get(PATH).as_deref(), Some(&b"third"[..]), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn data_that_another_client_wrote_is_not_repaired_but_overwritten_by_the_next() {
    let (server, [client]) = setup().await;
    let node = node(&client, "ours");
    present(&node).await;
    server.set_data_by_hand(PATH, "theirs").expect("it is there");
    settle().await;
    assert_eq!(server.get(PATH).as_deref(), Some(&b"theirs"[..]));
    // A reconnect in the same session is no reason either.
    server.disconnect(&client);
    settle().await;
    present(&node).await;
    assert_eq!(server.get(PATH).as_deref(), Some(&b"theirs"[..]));
    node.set_data("ours again").await.expect("written");
    is_there(&server, &client, PATH, "ours again");
    // The watch was not lost with all that.
    server.delete_by_hand(PATH).expect("it was there");
    server.until(|| server.stat(PATH).is_some()).await;
    is_there(&server, &client, PATH, "ours again");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_the_server_deletes_is_created_again() {
    let (server, [client]) = setup().await;
    let node = node_of(&client, NodeMode::Container, "c");
    present(&node).await;
    let before = server.stat(PATH).expect("it is there").czxid;
    let child = format!("{PATH}/child");
    server.create_by_hand(&child, "", zookeeper_recipes::CreateMode::Persistent).expect("a new node");
    server.delete_by_hand(&child).expect("it was there");
    let again = || server.stat(PATH).is_some_and(|stat| stat.czxid != before);
    within("it was deleted and created again", T * 20, server.until(again)).await;
    assert_eq!(server.get(PATH).as_deref(), Some(&b"c"[..]));
}

#[tokio::test(start_paused = true)]
async fn the_path_is_that_of_the_namespace_and_missing_parents_are_containers() {
    let server = TestingServer::start();
    let client =
        Client::builder_for_testing(&server).namespace("/app").session_timeout(T).connect().await.expect("a client");
    let node = PersistentNode::builder(&client, PATH).start().expect("it starts");
    assert_eq!(node.created().await.as_deref(), Ok(PATH));
    present(&node).await;
    is_there(&server, &client, &format!("/app{PATH}"), "");
    node.close().await.expect("closed");
    // The servers remove what is empty.
    within("the parents are gone", T * 30, server.until(|| server.paths().is_empty())).await;
}

#[tokio::test(start_paused = true)]
async fn a_protected_node_has_a_name_of_its_own() {
    for mode in FIXED {
        let (server, [client]) = setup().await;
        let start = || PersistentNode::builder(&client, PATH).mode(mode).protected(true).start().expect("it starts");
        let (one, two) = (start(), start());
        let paths = [one.created().await.expect("created"), two.created().await.expect("created")];
        assert_ne!(paths[0], paths[1], "{mode:?}");
        for path in &paths {
            let name = path.strip_prefix(&format!("{DIR}/_c_")).expect("protected");
            assert!(name.len() == 38 && name.ends_with("-a"), "{mode:?}: {path}");
            assert!(server.stat(path).is_some(), "{mode:?}: {path}");
        }
        one.close().await.expect("closed");
        assert_eq!(server.stat(&paths[0]), None, "{mode:?}");
        two.close().await.expect("closed");
        assert!(server.children(DIR).is_empty(), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_on_one_path_in_one_client_share_the_node_until_both_are_closed() {
    let (server, [client]) = setup().await;
    let one = node(&client, "same");
    present(&one).await;
    let two = node(&client, "same");
    present(&two).await;
    one.close().await.expect("closed");
    settle().await;
    is_there(&server, &client, PATH, "same");
    two.close().await.expect("closed");
    settle().await;
    assert_eq!(server.stat(PATH), None);
}
