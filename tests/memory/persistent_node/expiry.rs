//! Sessions that end: the node comes back, at the same path, with the latest data, and only once.

use zookeeper_recipes::persistent_node::{Error, NodeMode, PersistentNode};
use zookeeper_recipes::testing::{Data, Loss, Operation, TestingServer};
use zookeeper_recipes::{Acl, Client, CreateMode, ErrorKind, Permissions, Stat};

use super::fixture::{DIR, FIXED, PATH, fails, is_there, node, node_of, present, settle, setup, waits};
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
async fn give_up(server: &TestingServer, client: &Client) {
    let session = client.session_id();
    server.stop();
    server.until(|| client.session_id() != session).await;
    server.restart(Data::Kept);
    assert_eq!(server.children(DIR).len(), 1, "the servers know of nothing yet");
}

async fn given_up(mode: NodeMode) -> (TestingServer, Client, PersistentNode) {
    let (server, [client]) = setup().await;
    let node = node_of(&client, mode, "data");
    present(&node).await;
    give_up(&server, &client).await;
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

/// Sends a write that no server receives, and lets the client give up the session.
async fn give_up_writing(server: &TestingServer, client: &Client, write: impl Future<Output = Result<(), Error>>) {
    server.black_hole(client);
    let sent = client.request_counts().writes;
    let given_up = async {
        server.until(|| client.request_counts().writes > sent).await;
        give_up(server, client).await;
        server.heal();
    };
    let (written, ()) = futures::join!(write, given_up);
    written.expect("written in the next session");
}

/// Asserts that the servers would refuse a write that was lost at this version, and that `path` has this data.
async fn is_past(server: &TestingServer, path: &str, version: i32, data: &str) {
    let other = server.client().await.expect("a client");
    let late = other.transaction().set_data(path, b"late", Some(version)).commit().await;
    assert_eq!(late.err().map(|error| error.kind()), Some(ErrorKind::BadVersion));
    assert_eq!(server.get(path).as_deref(), Some(data.as_bytes()));
}

#[tokio::test(start_paused = true)]
async fn a_late_write_of_a_session_that_was_given_up_is_refused() {
    let (server, [client]) = setup().await;
    let node = node_of(&client, NodeMode::EphemeralSequential, "data");
    present(&node).await;
    let path = node.path().expect("it was created");
    node.set_data("1").await.expect("written");
    // The node of the next session has version 0 again.
    give_up_writing(&server, &client, node.set_data("2")).await;
    assert_eq!(server.stat(&path).map(|stat| stat.version), Some(0), "no late write names this version");
    node.set_data("3").await.expect("written");
    is_past(&server, &path, 1, "3").await;
    is_there(&server, &client, &path, "3");

    settle().await;
    let before = requests(&server, &client);
    node.set_data("4").await.expect("written");
    settle().await;
    assert_eq!(requests(&server, &client), [before[0] + 1, before[1], before[2]], "a write is one request again");
}

#[tokio::test(start_paused = true)]
async fn several_late_writes_are_refused() {
    let (server, [client]) = setup().await;
    let node = node_of(&client, NodeMode::EphemeralSequential, "data");
    present(&node).await;
    let path = node.path().expect("it was created");
    // Each is lost at the version that the node of its session has; the second one is written past 0 first.
    for data in ["1", "2"] {
        give_up_writing(&server, &client, node.set_data(data)).await;
        settle().await;
    }
    for version in 0..2 {
        is_past(&server, &path, version, "2").await;
    }
}

/// It is carried out as soon as there is a node, so before the other write that would make the servers refuse it.
#[tokio::test(start_paused = true)]
async fn a_late_write_that_is_carried_out_is_replaced() {
    let (server, [client]) = setup().await;
    let node = node_of(&client, NodeMode::EphemeralSequential, "data");
    present(&node).await;
    let path = node.path().expect("it was created");
    let late = async {
        let old = client.session_id();
        let is_of_another = |stat: Stat| Some(stat.ephemeral_owner) != old;
        server.until(|| server.stat(&path).is_some_and(is_of_another)).await;
        assert_eq!(server.stat(&path).map(|stat| stat.version), Some(0), "not written again yet");
        server.set_data_by_hand(&path, "lost").expect("it is there");
    };
    let writes = async {
        let newer = async {
            server.until(|| client.session_id().is_none()).await;
            node.set_data("new").await
        };
        let (_, newer) = futures::join!(node.set_data("lost"), newer);
        newer
    };
    futures::join!(late, give_up_writing(&server, &client, writes));
    settle().await;
    is_there(&server, &client, &path, "new");
}

/// No write was under way, or the servers have ended its session.
#[tokio::test(start_paused = true)]
async fn nothing_is_written_again_without_a_late_write() {
    let (server, client, node) = given_up(NodeMode::EphemeralSequential).await;
    let path = node.path().expect("it was created");
    server.until(|| client.session_id().is_some()).await;
    present(&node).await;
    settle().await;
    assert_eq!(server.stat(&path).map(|stat| stat.version), Some(0));

    server.black_hole(&client);
    let (session, sent) = (client.session_id(), client.request_counts().writes);
    let expired = async {
        server.until(|| client.request_counts().writes > sent).await;
        server.expire_session(&client);
        server.heal();
        server.until(|| client.session_id().is_some() && client.session_id() != session).await;
    };
    let (written, ()) = futures::join!(node.set_data("new"), expired);
    written.expect("written in the next session");
    settle().await;
    assert_eq!(server.stat(&path).map(|stat| stat.version), Some(0));
    is_there(&server, &client, &path, "new");
}

/// Writes other data, which is lost, and the present data again. The node has that all the time.
async fn write_and_write_back(server: &TestingServer, client: &Client, node: &PersistentNode) -> Result<(), Error> {
    let back = async {
        server.until(|| client.session_id().is_none()).await;
        node.set_data("data").await
    };
    let mut written = Ok(());
    give_up_writing(server, client, async {
        written = futures::join!(node.set_data("lost"), back).1;
        Ok(())
    })
    .await;
    written
}

#[tokio::test(start_paused = true)]
async fn data_that_is_wanted_again_is_written_again_if_a_late_write_may_replace_it() {
    for mode in [NodeMode::Persistent, NodeMode::Container, NodeMode::Ttl(T * 10)] {
        let (server, [client]) = setup().await;
        let node = node_of(&client, mode, "data");
        present(&node).await;
        // The first renewal of the time to live.
        settle().await;
        write_and_write_back(&server, &client, &node).await.expect("written");
        is_past(&server, PATH, 0, "data").await;
    }
}

/// Returns a node that cannot be taken past the version of a late write, as it may not be written.
async fn threatened() -> (TestingServer, Client, PersistentNode) {
    let (server, [client]) = setup().await;
    let acl = Acl::new(Permissions::READ | Permissions::DELETE, "world", "anyone");
    let other = Client::builder_for_testing(&server).acls([acl]).connect().await.expect("a client");
    other.create(PATH, "data", CreateMode::Persistent).await.expect("a new node");
    let node = node_of(&client, NodeMode::Persistent, "data");
    present(&node).await;
    let refused = write_and_write_back(&server, &client, &node).await.expect_err("no permission");
    assert_eq!(refused.kind(), ErrorKind::NoAuth);
    fails(&node).await;
    (server, client, node)
}

/// That is an error until the late write can no longer come.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_written_past_a_late_write_is_failed_without_a_hurry() {
    let (server, client, node) = threatened().await;
    let before = requests(&server, &client)[0];
    tokio::time::sleep(T).await;
    let writes = requests(&server, &client)[0] - before;
    assert!((1..=8).contains(&writes), "{writes} writes");
    present(&node).await;
}

/// It comes while the node cannot be written past it, and no look can show it before it can no longer come.
#[tokio::test(start_paused = true)]
async fn a_late_write_that_is_seen_late_is_not_taken_for_that_of_another_client() {
    let (server, client, node) = threatened().await;
    server.black_hole(&client);
    server.set_data_by_hand(PATH, "lost").expect("it is there");
    let session = client.session_id();
    tokio::time::sleep(T * 4).await;
    server.heal();
    server.until(|| client.session_id().is_some() && client.session_id() != session).await;
    settle().await;
    assert!(node.state().get().error().is_some(), "it is to be written: {node:?}");
}

/// Two objects share a lasting node, and each sees the data of the other.
#[tokio::test(start_paused = true)]
async fn two_objects_at_one_path_do_not_undo_each_other_after_a_session_was_given_up() {
    let (server, [client]) = setup().await;
    let [node, other] = ["data", "other"].map(|data| node_of(&client, NodeMode::Persistent, data));
    present(&node).await;
    present(&other).await;
    let both = async { futures::join!(node.set_data("new"), other.set_data("newer")).0 };
    give_up_writing(&server, &client, both).await;
    settle().await;
    let before = requests(&server, &client);
    settle().await;
    assert_eq!(requests(&server, &client), before);
    other.set_data("latest").await.expect("written");
    settle().await;
    assert_eq!(server.get(PATH).as_deref(), Some(b"latest".as_slice()));
}

fn requests(server: &TestingServer, client: &Client) -> [u64; 3] {
    [Operation::SetData, Operation::GetData, Operation::List].map(|operation| server.count(client, operation))
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
