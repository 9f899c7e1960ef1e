//! The servers: `stop`, `restart`, several of them with `lag`, `cut_off`, and containers that are removed.

use std::time::Duration;

use zookeeper_recipes::ConnectionState::{Lost, Reconnected, Suspended};
use zookeeper_recipes::testing::{Data, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{A_MOMENT, States, T, connect, create, session};

#[tokio::test(start_paused = true)]
async fn stop_refuses_all_clients_and_pauses_the_time_of_sessions() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    client.create("/mine", "", CreateMode::Ephemeral).await.unwrap();
    let (mut states, id) = (States::of(&client).await, client.session_id());
    server.stop();
    states.are(&[Suspended]).await;
    assert_eq!(server.client().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
    states.are(&[Lost]).await;
    tokio::time::sleep(T * 10).await;
    assert_eq!(server.sessions().first().map(|session| session.id), id, "its timeout is paused");
    assert_eq!(server.paths(), ["/mine"]);
    server.restart(Data::Kept);
    states.are(&[Reconnected]).await;
    assert_ne!(client.session_id(), id, "a lost session stays lost");
    server.until(|| server.paths().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn restart_with_data_kept_is_a_short_absence() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    client.create("/mine", "data", CreateMode::Ephemeral).await.unwrap();
    let (mut states, id) = (States::of(&client).await, client.session_id());
    for stopped in [false, true] {
        if stopped {
            server.stop();
            tokio::time::sleep(T / 5).await;
        }
        server.restart(Data::Kept);
        states.are(&[Suspended, Reconnected]).await;
        assert_eq!(client.session_id(), id);
        assert_eq!(client.get("/mine").await.unwrap().0, b"data");
    }
}

#[tokio::test(start_paused = true)]
async fn restart_with_data_lost_forgets_nodes_sessions_and_counters() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    create(&client, "/node").await;
    client.create("/n-", "", CreateMode::PersistentSequential).await.unwrap();
    let (mut states, id) = (States::of(&client).await, client.session_id());
    server.restart(Data::Lost);
    assert_eq!(server.paths(), [""; 0]);
    assert_eq!(server.sessions(), []);
    states.are(&[Suspended, Lost, Reconnected]).await;
    assert_ne!(client.session_id(), id);
    let named = client.create("/n-", "", CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(named, "/n-0000000000");
}

/// Two clients on different servers of three.
async fn apart(server: &TestingServer) -> (Client, Client) {
    assert_eq!(server.servers(), 3);
    let one = connect(server).await;
    let at = |client: &Client| session(server, client).and_then(|session| session.server);
    for _ in 0..50 {
        let other = connect(server).await;
        if at(&other) != at(&one) {
            return (one, other);
        }
    }
    panic!("all are on the same server");
}

#[tokio::test(start_paused = true)]
async fn with_lag_a_read_may_be_old_and_never_goes_back() {
    let millis = Duration::from_millis;
    let server = TestingServer::builder().servers(3).lag(millis(100)..=millis(400)).start();
    let (writer, reader) = apart(&server).await;
    let mut old = 0;
    create(&writer, "/node").await;
    for version in 1..=20 {
        writer.set("/node", "", None).await.unwrap();
        assert_eq!(server.stat("/node").unwrap().version, version, "a committed write is visible at once");
        let mut last = 0;
        loop {
            let seen = reader.exists("/node").await.unwrap().map_or(0, |stat| stat.version);
            assert!(seen >= last, "{last}, then {seen}");
            last = seen;
            if seen == version {
                break;
            }
            old += 1;
        }
    }
    assert!(old > 20, "{old} reads were old");
}

#[tokio::test(start_paused = true)]
async fn cut_off_serves_old_data_then_drops_its_clients_until_heal() {
    let server = TestingServer::builder().servers(3).start();
    let (kept, cut) = apart(&server).await;
    create(&kept, "/node").await;
    let at = session(&server, &cut).and_then(|session| session.server).expect("a server");
    server.until(|| server.sessions().iter().all(|session| session.connected)).await;
    assert!(cut.exists("/node").await.unwrap().is_some());
    let (mut states, id) = (States::of(&cut).await, cut.session_id());
    let serves_for = T / 5;
    server.cut_off(at, serves_for);
    kept.set("/node", "new", None).await.unwrap();
    tokio::time::sleep(serves_for / 2).await;
    assert_eq!(cut.get("/node").await.unwrap().0, b"", "it serves what it has");
    let write = cut.create("/lost", "", CreateMode::Persistent).await;
    assert_eq!(write.unwrap_err().kind(), ErrorKind::OutcomeUnknown, "it cannot reach the others");
    states.are(&[Suspended, Reconnected]).await;
    assert_eq!(cut.session_id(), id, "another server took it on");
    assert_ne!(session(&server, &cut).and_then(|session| session.server), Some(at));
    assert_eq!(cut.get("/node").await.unwrap().0, b"new");
    assert_eq!(server.paths(), ["/node"]);
    // No client uses the server that is cut off until it is back.
    server.disconnect(&cut);
    states.are(&[Suspended, Reconnected]).await;
    assert_ne!(session(&server, &cut).and_then(|session| session.server), Some(at));
    server.heal();
    let mut back = false;
    for _ in 0..20 {
        server.disconnect(&cut);
        states.are(&[Suspended, Reconnected]).await;
        back |= session(&server, &cut).and_then(|session| session.server) == Some(at);
    }
    assert!(back, "after heal it serves again");
    assert_eq!(cut.get("/node").await.unwrap().0, b"new");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "server 3 cannot be cut off in an ensemble of 3")]
async fn cut_off_knows_how_many_there_are() {
    TestingServer::builder().servers(3).start().cut_off(3, T);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "server 0 cannot be cut off in an ensemble of 1")]
async fn cut_off_needs_another_server_to_be_cut_off_from() {
    TestingServer::start().cut_off(0, T);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "SetData cannot be made to fail; only Exists, GetData and List can")]
async fn a_write_cannot_be_made_to_fail_as_a_read() {
    TestingServer::start().fail_reads("/node", Operation::SetData);
}

#[tokio::test(start_paused = true)]
async fn a_container_is_removed_when_it_is_looked_for() {
    let interval = Duration::from_secs(5);
    let server = TestingServer::builder().container_check_interval(interval).start();
    let client = connect(&server).await;
    for path in ["/used", "/unused"] {
        client.create_containers(path).await.unwrap();
    }
    create(&client, "/used/child").await;
    tokio::time::sleep(interval * 3).await;
    assert_eq!(server.children("/"), ["unused", "used"]);
    client.delete("/used/child", None).await.unwrap();
    tokio::time::sleep(interval + A_MOMENT).await;
    assert_eq!(server.children("/"), ["unused"], "one that never had a child is left");
}
