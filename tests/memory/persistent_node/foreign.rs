//! A node that is there already, of whichever kind and owner.

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::persistent_node::{NodeMode, NodeState};
use zookeeper_recipes::testing::Data;

use super::fixture::{FIXED, PATH, is_there, node, node_of, present, reaches, settle, setup, waits};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn a_foreign_ephemeral_is_left_alone_and_replaced_when_its_session_ends() {
    for mode in FIXED {
        let (server, [client, other]) = setup().await;
        other.create(PATH, "theirs", CreateMode::Ephemeral).await.expect("created");
        let before = server.stat(PATH);
        let node = node_of(&client, mode, "ours");
        waits(&node).await;
        settle().await;
        // New data changes nothing either; it counts for the time when the node is ours.
        let mut write = Box::pin(node.set_data("latest"));
        crate::fixture::still_pending("it waits", &mut write).await;
        assert_eq!(server.stat(PATH), before, "{mode:?}");
        assert_eq!(node.path(), None, "{mode:?}");
        server.expire_session(&other);
        within("it takes over", SOON, write).await.expect("written");
        present(&node).await;
        assert_eq!(server.get(PATH).as_deref(), Some(&b"latest"[..]), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_on_one_path_the_first_is_never_disturbed() {
    let (server, [client, other]) = setup().await;
    let winner = node(&client, "winner");
    present(&winner).await;
    let stat = server.stat(PATH).expect("it is there");
    let loser = node(&other, "loser");
    waits(&loser).await;
    server.disconnect(&client);
    server.disconnect(&other);
    settle().await;
    winner.set_data("still").await.expect("written");
    tokio::time::sleep(T * 3).await;
    is_there(&server, &client, PATH, "still");
    assert_eq!(server.stat(PATH).map(|stat| (stat.czxid, stat.version)), Some((stat.czxid, 1)));
    waits(&loser).await;
    // The loser goes without touching it.
    loser.close().await.expect("closed");
    is_there(&server, &client, PATH, "still");
}

#[tokio::test(start_paused = true)]
async fn the_loser_takes_over_when_the_winner_is_closed() {
    let (server, [client, other]) = setup().await;
    let winner = node(&client, "winner");
    present(&winner).await;
    let loser = node(&other, "loser");
    waits(&loser).await;
    winner.close().await.expect("closed");
    within("it takes over", SOON, present(&loser)).await;
    is_there(&server, &other, PATH, "loser");
}

#[tokio::test(start_paused = true)]
async fn after_its_session_the_winner_finds_the_other_and_waits() {
    let (server, [client, other]) = setup().await;
    let winner = node(&client, "winner");
    present(&winner).await;
    let loser = node(&other, "loser");
    waits(&loser).await;
    // While the winner cannot open another session, the loser takes over.
    server.refuse(&client);
    server.expire_session(&client);
    present(&loser).await;
    server.heal();
    waits(&winner).await;
    settle().await;
    is_there(&server, &other, PATH, "loser");
    loser.close().await.expect("closed");
    present(&winner).await;
    is_there(&server, &client, PATH, "winner");
}

#[tokio::test(start_paused = true)]
async fn a_persistent_node_is_adopted_for_a_lasting_one_and_gets_our_data() {
    for mode in [NodeMode::Persistent, NodeMode::Container] {
        for before in ["ours", "theirs"] {
            let (server, [client]) = setup().await;
            server.create_by_hand(PATH, before, CreateMode::Persistent).expect("a new node");
            let czxid = server.stat(PATH).expect("it is there").czxid;
            let node = node_of(&client, mode, "ours");
            present(&node).await;
            settle().await;
            let stat = server.stat(PATH).expect("it is there");
            let writes = i32::from(before != "ours");
            assert_eq!((stat.czxid, stat.version), (czxid, writes), "{mode:?}, {before}");
            assert_eq!(server.get(PATH).as_deref(), Some(&b"ours"[..]), "{mode:?}, {before}");
            node.close().await.expect("closed");
            assert_eq!(server.stat(PATH), None, "{mode:?}, {before}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_persistent_node_in_place_of_an_ephemeral_one_is_adopted_and_the_state_says_so() {
    let (server, [client]) = setup().await;
    server.create_by_hand(PATH, "theirs", CreateMode::Persistent).expect("a new node");
    let node = node(&client, "ours");
    reaches(&node, "of another kind", |state| *state == NodeState::OtherKind).await;
    node.set_data("later").await.expect("written");
    assert_eq!(server.get(PATH).as_deref(), Some(&b"later"[..]));
    assert!(node.state().get().is_present());
    // It outlasts the session, and is found again in the next one.
    server.expire_session(&client);
    settle().await;
    reaches(&node, "of another kind", |state| *state == NodeState::OtherKind).await;
    // Deleted by hand, it becomes what it should be.
    server.delete_by_hand(PATH).expect("it was there");
    present(&node).await;
    is_there(&server, &client, PATH, "later");
}

#[tokio::test(start_paused = true)]
async fn a_persistent_node_that_was_adopted_in_place_of_an_ephemeral_one_is_deleted_by_the_close() {
    for loses_session in [false, true] {
        let (server, [client]) = setup().await;
        server.create_by_hand(PATH, "theirs", CreateMode::Persistent).expect("a new node");
        let node = node(&client, "ours");
        reaches(&node, "of another kind", |state| *state == NodeState::OtherKind).await;
        if loses_session {
            server.expire_session(&client);
        }
        within("it is closed", T, node.close()).await.expect("closed");
        assert_eq!(server.stat(PATH), None, "{loses_session}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_of_our_own_session_in_place_of_a_lasting_one_is_adopted_and_replaced_after_the_session() {
    let (server, [client]) = setup().await;
    client.create(PATH, "by hand", CreateMode::Ephemeral).await.expect("created");
    let node = node_of(&client, NodeMode::Persistent, "ours");
    reaches(&node, "of another kind", |state| *state == NodeState::OtherKind).await;
    is_there(&server, &client, PATH, "ours");
    server.expire_session(&client);
    present(&node).await;
    assert_eq!(server.stat(PATH).map(|stat| stat.ephemeral_owner), Some(0));
    server.restart(Data::Kept);
    settle().await;
    node.close().await.expect("closed");
    assert_eq!(server.stat(PATH), None);
}

#[tokio::test(start_paused = true)]
async fn two_objects_of_one_client_share_the_node_and_it_outlives_the_first() {
    let (server, [client]) = setup().await;
    let (one, other) = (node(&client, "one"), node(&client, "other"));
    present(&one).await;
    present(&other).await;
    other.set_data("the last write").await.expect("written");
    is_there(&server, &client, PATH, "the last write");
    one.close().await.expect("closed");
    let is_back = || server.get(PATH).as_deref() == Some(&b"the last write"[..]);
    within("it is created again", SOON, server.until(is_back)).await;
    present(&other).await;
    other.close().await.expect("closed");
    assert_eq!(server.stat(PATH), None);
}
