//! Sessions that a real server ends, servers that restart.

use std::time::Duration;

use zookeeper_recipes::persistent_node::{NodeMode, NodeState};
use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::{Fixture, SOON, builder, connect, eventually, node, present, reaches};
use crate::support::{Fault, Observer, Proxy, ZooKeeper, unique_path, within};

const SESSION: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_killed_session_the_node_is_back_at_its_path_with_the_latest_data() {
    for mode in [NodeMode::Ephemeral, NodeMode::EphemeralSequential] {
        let fixture = Fixture::with_directory("killed").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let node = node(&client, &format!("{}/n", fixture.path), mode, "old");
        let path = within("it is created", SOON, node.created()).await.expect("created");
        for round in 0..2 {
            let (session, data) = (client.session_id(), format!("new {round}"));
            within("it is written", SOON, node.set_data(data.clone())).await.expect("written");
            proxy.kill_session().await;
            proxy.cut().await;
            eventually("it is back", SOON, || async {
                let owner = fixture.observer.owner(&path).await;
                owner.is_some() && owner != session && owner == client.session_id()
            })
            .await;
            assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(data.as_bytes()), "{mode:?}");
            assert_eq!(fixture.nodes().await.len(), 1, "{mode:?}");
            present(&node).await;
        }
        within("it is closed", SOON, node.close()).await.expect("closed");
        assert!(fixture.nodes().await.is_empty(), "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_cut_off_loses_its_node_to_the_next_and_waits_afterwards() {
    let fixture = Fixture::with_directory("cut").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let other = fixture.client().await;
    let path = format!("{}/n", fixture.path);
    let first = node(&client, &path, NodeMode::Ephemeral, "first");
    present(&first).await;
    let next = node(&other, &path, NodeMode::Ephemeral, "next");
    reaches(&next, NodeState::Waiting).await;
    proxy.set(Fault::BlackHole).await;
    present(&next).await;
    proxy.set(Fault::Pass).await;
    reaches(&first, NodeState::Waiting).await;
    assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"next"[..]));
    assert_eq!(fixture.observer.owner(&path).await, other.session_id());
    within("it is closed", SOON, next.close()).await.expect("closed");
    present(&first).await;
    assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"first"[..]));
}

/// The node has the wanted data all the time: only its version tells whether the servers would refuse the lost write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lasting_node_is_written_past_a_write_that_was_lost_with_its_session() {
    let fixture = Fixture::with_directory("late").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let path = format!("{}/n", fixture.path);
    let node = node(&client, &path, NodeMode::Persistent, "data");
    present(&node).await;
    proxy.set(Fault::BlackHole).await;
    let sent = client.request_counts().writes;
    let written_back = async {
        eventually("the write is sent", SOON, || async { client.request_counts().writes > sent }).await;
        eventually("its session is given up", SOON, || async { client.session_id().is_none() }).await;
        futures::join!(node.set_data("data"), proxy.set(Fault::Pass)).0
    };
    let writes = async { futures::join!(node.set_data("lost"), written_back).1 };
    within("the old data is written again", SOON * 2, writes).await.expect("written");
    present(&node).await;
    let late = fixture.client().await.transaction().set_data(&path, b"late", Some(0)).commit().await;
    assert_eq!(late.expect_err("the lost write would be refused").kind(), ErrorKind::BadVersion);
    assert_eq!(fixture.observer.data(&path).await.as_deref(), Some(&b"data"[..]));
}

/// Curator's testSetDataWhenDisconnected and testNoServerAtStart, in one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_set_while_the_server_is_down_is_written_after_the_restart() {
    let server = ZooKeeper::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = connect(builder(&proxy.connect_string(), Duration::from_secs(30))).await;
    let dir = unique_path("restart");
    let path = format!("{dir}/n");
    let first = node(&client, &path, NodeMode::Ephemeral, "old");
    present(&first).await;
    server.stop().await;
    reaches(&first, NodeState::Suspended).await;
    let second = node(&client, &format!("{dir}/m"), NodeMode::Ephemeral, "late");
    let setting = tokio::spawn(async move {
        first.set_data("new").await.expect("written");
        first
    });
    server.start_again().await;
    proxy.follow(server.addr());
    let first = within("it is written", SOON * 2, setting).await.expect("no panic");
    present(&first).await;
    present(&second).await;
    let observer = Observer::connect(&server.connect_string()).await;
    assert_eq!(observer.data(&path).await.as_deref(), Some(&b"new"[..]));
    assert_eq!(observer.children(&dir).await.len(), 2);
    within("it is closed", SOON, first.close()).await.expect("closed");
    assert!(!observer.exists(&path).await);
}
