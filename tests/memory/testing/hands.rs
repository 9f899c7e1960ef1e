//! Operations by hand, and permissions: `create_by_hand`, `set_sequence`, `deny`, `allow`, and the view of the
//! tree.

use futures::StreamExt;
use zookeeper_recipes::leader_latch::observe_leader;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode, Error, ErrorKind};

use super::fixture::{connect, create, latch, session};

fn kind<T: std::fmt::Debug>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.expect_err("it is refused").kind()
}

#[tokio::test(start_paused = true)]
async fn nodes_are_made_changed_and_deleted_by_hand() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    assert_eq!(server.create_by_hand("/node", "1", CreateMode::Persistent).unwrap(), "/node");
    assert_eq!(client.get("/node").await.unwrap().0, b"1");
    server.set_data_by_hand("/node", "2").unwrap();
    let (data, stat) = client.get("/node").await.unwrap();
    assert_eq!((data.as_slice(), stat.version), (&b"2"[..], 1));
    for (mode, name) in
        [(CreateMode::PersistentSequential, "0000000000"), (CreateMode::EphemeralSequential, "0000000001")]
    {
        assert_eq!(server.create_by_hand("/node/n-", "", mode).unwrap(), format!("/node/n-{name}"));
    }
    server.create_by_hand("/node/e", "", CreateMode::Ephemeral).unwrap();
    assert_eq!(server.stat("/node/e").unwrap().ephemeral_owner, 0, "there is no session");
    for child in server.children("/node") {
        server.delete_by_hand(&format!("/node/{child}")).unwrap();
    }
    server.delete_by_hand("/node").unwrap();
    assert_eq!(client.exists("/node").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_hand_is_refused_as_a_client_is() {
    let server = TestingServer::start();
    server.create_by_hand("/a", "", CreateMode::Persistent).unwrap();
    server.create_by_hand("/a/b", "", CreateMode::Persistent).unwrap();
    assert_eq!(kind(server.create_by_hand("/a", "", CreateMode::Persistent)), ErrorKind::NodeExists);
    assert_eq!(kind(server.create_by_hand("/no/b", "", CreateMode::Persistent)), ErrorKind::NoNode);
    assert_eq!(kind(server.create_by_hand("a", "", CreateMode::Persistent)), ErrorKind::InvalidPath);
    assert_eq!(kind(server.set_data_by_hand("/no", "")), ErrorKind::NoNode);
    assert_eq!(kind(server.delete_by_hand("/a")), ErrorKind::NotEmpty);
    assert_eq!(kind(server.delete_by_hand("/no")), ErrorKind::NoNode);
    assert_eq!(kind(server.set_sequence("/no", 1)), ErrorKind::NoNode);
    let client = connect(&server).await;
    client.create("/mine", "", CreateMode::Ephemeral).await.unwrap();
    let below = server.create_by_hand("/mine/child", "", CreateMode::Persistent);
    assert_eq!(kind(below), ErrorKind::NoChildrenForEphemerals);
}

#[tokio::test(start_paused = true)]
async fn delete_by_hand_removes_the_leaders_node_and_all_clients_are_told() {
    let server = TestingServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let first = latch(&client).await;
    let leadership = first.wait_for_leadership().await.unwrap();
    let second = latch(&other).await;
    server.until(|| second.our_path().is_some() && server.children("/latch").len() == 2).await;
    server.delete_by_hand(&first.our_path().expect("a node")).unwrap();
    second.wait_for_leadership().await.unwrap();
    leadership.lost().await;
    assert!(!first.has_leadership());
}

#[tokio::test(start_paused = true)]
async fn set_sequence_decides_the_next_number_until_there_are_no_more() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    create(&client, "/line").await;
    let next = async || client.create("/line/n-", "", CreateMode::EphemeralSequential).await;
    server.set_sequence("/line", 4_711).unwrap();
    assert_eq!(next().await.unwrap(), "/line/n-0000004711");
    assert_eq!(next().await.unwrap(), "/line/n-0000004712");
    server.set_sequence("/line", i32::MAX - 1).unwrap();
    assert_eq!(next().await.unwrap(), "/line/n-2147483646");
    assert_eq!(next().await.unwrap(), "/line/n-2147483647");
    for _ in 0..3 {
        assert_eq!(kind(next().await), ErrorKind::NodeExists, "the counter sticks at its end");
    }
    client.delete("/line/n-2147483647", None).await.unwrap();
    assert_eq!(next().await.unwrap(), "/line/n-2147483647", "the last number again");
}

async fn is_denied(client: &Client) {
    assert_eq!(kind(client.get("/node").await), ErrorKind::NoAuth);
    assert_eq!(kind(client.exists("/node").await), ErrorKind::NoAuth);
    assert_eq!(kind(client.children("/node").await), ErrorKind::NoAuth);
    assert_eq!(kind(client.set("/node", "", None).await), ErrorKind::NoAuth);
    assert_eq!(kind(client.create("/node/new", "", CreateMode::Persistent).await), ErrorKind::NoAuth);
    assert_eq!(kind(client.delete("/node/child", None).await), ErrorKind::NoAuth);
    assert_eq!(kind(client.transaction().check_version("/node", 0).commit().await), ErrorKind::NoAuth);
}

#[tokio::test(start_paused = true)]
async fn deny_forbids_a_node_to_all_clients_but_not_by_hand_until_allow() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    for path in ["/node", "/node/child", "/free"] {
        create(&client, path).await;
    }
    server.deny("/node");
    is_denied(&client).await;
    client.get("/node/child").await.expect("children are nodes of their own");
    client.get("/free").await.expect("it is another node");
    server.set_data_by_hand("/node", "by hand").unwrap();
    server.create_by_hand("/node/new", "", CreateMode::Persistent).unwrap();
    server.delete_by_hand("/node/new").unwrap();
    server.allow("/node");
    assert_eq!(client.get("/node").await.unwrap().0, b"by hand");
    client.delete("/node/child", None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_recipe_without_permission_reports_it_and_continues_when_it_is_granted() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    create(&client, "/latch").await;
    server.deny("/latch");
    let latch = latch(&client).await;
    let refused = latch.wait_for_leadership().await.expect_err("it may not");
    assert_eq!(refused.kind(), ErrorKind::NoAuth);
    server.allow("/latch");
    latch.wait_for_leadership().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_view_shows_nodes_watches_and_sessions() {
    let server = TestingServer::start();
    let client = Client::builder_for_testing(&server).namespace("/service").connect().await.unwrap();
    client.create_containers("/a").await.unwrap();
    for name in ["/a/y", "/a/x"] {
        client.create(name, "data", CreateMode::Ephemeral).await.unwrap();
    }
    assert_eq!(server.paths(), ["/service", "/service/a", "/service/a/x", "/service/a/y"], "with the namespace");
    assert_eq!(server.children("/service/a"), ["x", "y"]);
    assert_eq!(server.children("/no"), [""; 0]);
    assert_eq!(server.get("/service/a/x").as_deref(), Some(&b"data"[..]));
    assert_eq!(server.get("/no"), None);
    assert_eq!(server.stat("/service/a/x"), client.exists("/a/x").await.unwrap());
    assert_eq!(server.stat("/service/a/x").map(|stat| stat.ephemeral_owner), client.session_id());
    assert_eq!(server.stat("/no"), None);
    assert_eq!(server.servers(), 1);

    assert_eq!(server.watches(), 0);
    let mut leaders = observe_leader(&client, "/latch").unwrap();
    leaders.next().await.unwrap().unwrap();
    assert!(server.watches() > 0);
    drop(leaders);
    server.until(|| server.watches() == 0).await;

    let second = connect(&server).await;
    let numbers: Vec<_> = server.sessions().iter().map(|session| (session.client, session.connected)).collect();
    assert_eq!(numbers, [(Some(1), true), (Some(2), true)]);
    let known = session(&server, &second).expect("a session");
    assert_eq!((known.server, Some(known.timeout)), (Some(0), second.session_timeout()));
    second.close().await.unwrap();
    assert_eq!(server.sessions().len(), 1);
}
