//! What another client sees: names, data, modes.

use zookeeper_recipes::persistent_node::{NodeMode, NodeState, PersistentNode};
use zookeeper_recipes::{Acl, Client, CreateMode, ErrorKind, Permissions};

use super::fixture::{ALL, Fixture, SOON, connect, eventually, node, present, reaches};
use crate::fixture::builder;
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_client_sees_curators_names_modes_and_our_data() {
    for mode in ALL {
        let fixture = Fixture::new("node").await;
        let client = fixture.client().await;
        let node = node(&client, &format!("{}/n", fixture.path), mode, "one");
        let path = within("it is created", SOON, node.created()).await.expect("created");
        let name = path.strip_prefix(&format!("{}/", fixture.path)).expect("in its directory");
        if mode == NodeMode::EphemeralSequential {
            assert!(name.starts_with("_c_") && name.len() == 40 + 11 && name.ends_with("-n0000000000"), "{name}");
        } else {
            assert_eq!(name, "n", "{mode:?}");
        }
        let owner = fixture.observer.owner(&path).await;
        let is_ephemeral = matches!(mode, NodeMode::Ephemeral | NodeMode::EphemeralSequential);
        assert_eq!(owner, if is_ephemeral { client.session_id() } else { Some(0) }, "{mode:?}");
        assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"one"[..]), "{mode:?}");

        within("it is written", SOON, node.set_data("two")).await.expect("written");
        fixture.observer.wait_for_data(&path, b"two").await;
        fixture.observer.delete(&path).await;
        eventually("it is created again", SOON, || fixture.observer.exists(&path)).await;
        fixture.observer.wait_for_data(&path, b"two").await;

        within("it is closed", SOON, node.close()).await.expect("closed");
        assert!(!fixture.observer.exists(&path).await, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_goes_with_its_last_child_and_comes_back() {
    let fixture = Fixture::with_directory("container").await;
    let client = fixture.client().await;
    let path = format!("{}/c", fixture.path);
    let node = node(&client, &path, NodeMode::Container, "data");
    present(&node).await;
    let before = fixture.observer.stat(&path).await.expect("it is there").czxid;
    fixture.observer.create(&format!("{path}/child"), b"").await;
    fixture.observer.delete(&format!("{path}/child")).await;
    eventually("it was deleted and created again", SOON, || async {
        fixture.observer.stat(&path).await.is_some_and(|stat| stat.czxid != before)
    })
    .await;
    assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"data"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_on_one_path_one_waits_for_the_other() {
    let fixture = Fixture::with_directory("two").await;
    let (client, other) = (fixture.client().await, fixture.client().await);
    let path = format!("{}/n", fixture.path);
    let winner = node(&client, &path, NodeMode::Ephemeral, "winner");
    present(&winner).await;
    let before = fixture.observer.stat(&path).await.expect("it is there");
    let loser = node(&other, &path, NodeMode::Ephemeral, "loser");
    reaches(&loser, NodeState::Waiting).await;
    let now = fixture.observer.stat(&path).await.expect("it is there");
    assert_eq!((now.czxid, now.version), (before.czxid, before.version));
    within("it is closed", SOON, winner.close()).await.expect("closed");
    present(&loser).await;
    assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"loser"[..]));
    assert_eq!(fixture.observer.owner(&path).await, other.session_id());
}

/// A server sends no events of a node that may not be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_permission_to_read_its_node_it_fails() {
    let fixture = Fixture::with_directory("blind").await;
    let blind = Acl::new(Permissions::WRITE | Permissions::CREATE | Permissions::DELETE, "world", "anyone");
    let blind = builder(&fixture.server.connect_string(), std::time::Duration::from_secs(10)).acls([blind]);
    let client = connect(blind).await;
    let path = format!("{}/n", fixture.path);
    let builder = PersistentNode::builder(&client, path.clone()).protected(true);
    let node = builder.start().expect("it starts");
    let error = within("it fails", SOON, node.created()).await.expect_err("not permitted");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    within("it is closed", SOON, node.close()).await.expect("a delete needs no such permission");
    assert!(fixture.nodes().await.is_empty());
}

/// The servers of the tests look for such nodes twice a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_time_to_live_is_kept_and_ends_with_its_process_but_not_with_its_session() {
    let ttl = std::time::Duration::from_secs(2);
    let fixture = Fixture::with_directory("ttl").await;
    let client = fixture.client().await;
    let path = format!("{}/n", fixture.path);
    let first = node(&client, &path, NodeMode::Ttl(ttl), "first");
    present(&first).await;
    let before = fixture.observer.stat(&path).await.expect("it is there");
    tokio::time::sleep(ttl * 3).await;
    let now = fixture.observer.stat(&path).await.expect("it is kept");
    assert_eq!((now.czxid, now.mzxid, now.ephemeral_owner), (before.czxid, before.mzxid, 0));
    assert_eq!(fixture.observer.children(&path).await, ["touch"]);
    within("the client is closed", SOON, client.close()).await.expect("closed");
    assert!(fixture.observer.exists(&path).await, "it does not end with the session");
    eventually("it ends", SOON, || async { !fixture.observer.exists(&path).await }).await;

    let client = fixture.client().await;
    let second = node(&client, &path, NodeMode::Ttl(ttl), "second");
    present(&second).await;
    within("it is closed", SOON, second.close()).await.expect("closed");
    assert!(fixture.nodes().await.is_empty());
}

/// Curator's testNoCreatePermission.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_permission_to_create_it_fails() {
    let fixture = Fixture::new("forbidden").await;
    fixture.observer.create_forbidden(&fixture.path).await;
    let client = fixture.client().await;
    let node = node(&client, &format!("{}/n", fixture.path), NodeMode::Ephemeral, "");
    let error = within("it fails", SOON, node.created()).await.expect_err("not permitted");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    within("it is closed", SOON, node.close()).await.expect("nothing is there");
}

/// Curator's TestPersistentNode.testBasic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_node_survives_its_client_and_is_adopted_by_the_next() {
    let fixture = Fixture::with_directory("lasting").await;
    let client = fixture.client().await;
    let path = format!("{}/n", fixture.path);
    let first = node(&client, &path, NodeMode::Persistent, "first");
    present(&first).await;
    within("the client is closed", SOON, client.close()).await.expect("closed");
    assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"first"[..]));
    let next: Client = fixture.client().await;
    let second: PersistentNode = node(&next, &path, NodeMode::Persistent, "second");
    present(&second).await;
    fixture.observer.wait_for_data(&path, b"second").await;
    within("it is closed", SOON, second.close()).await.expect("closed");
    assert!(!fixture.observer.exists(&path).await);
    drop(next.create(&path, "", CreateMode::Ephemeral).await.expect("the path is free"));
}
