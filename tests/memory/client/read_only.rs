//! Clients that only read, on servers that only answer reads.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::leader_latch::{LeaderLatch, transfer};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::shared_value::SharedValue;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ConnectionState, CreateMode, ErrorKind, ErrorPolicy, ServerList};

use crate::fixture::within;

const T: Duration = Duration::from_secs(8);
/// A few attempts to connect, and to find another server.
const SOON: Duration = Duration::from_secs(60);

/// Three servers, one of which serves only reads when it is cut off, and the node `/a` with the data `old`.
async fn servers() -> TestingServer {
    let latency = Duration::ZERO..=Duration::from_millis(5);
    let server = TestingServer::builder().servers(3).latency(latency).read_only_mode(true).start();
    let client = Client::builder_for_testing(&server).connect().await.expect("a client");
    client.create("/a", b"old", CreateMode::Persistent).await.expect("created");
    client.close().await.expect("closed");
    server
}

/// A client that only reads, of the first server, which is then cut off.
async fn cut_off_reader(server: &TestingServer) -> (ServerList, Client) {
    let (servers, client) = reader(server).await;
    server.cut_off(0, Duration::ZERO);
    is(&client, ConnectionState::ReadOnly).await;
    (servers, client)
}

/// A client that only reads, of the first server.
async fn reader(server: &TestingServer) -> (ServerList, Client) {
    let servers = ServerList::new(&server.server_name(0)).expect("a list");
    let builder = Client::builder_for_testing(server).session_timeout(T).read_only(true);
    (servers.clone(), builder.server_list(&servers).connect().await.expect("a client"))
}

async fn is(client: &Client, state: ConnectionState) {
    let mut states = client.connection_states();
    let reached = async { while states.next().await.expect("a state").expect("in time") != state {} };
    within("the client's state", SOON, reached).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_cut_off_tells_old_data_until_it_is_back() {
    let server = servers().await;
    let (_, client) = reader(&server).await;
    let writer = Client::builder_for_testing(&server).server_list(&ServerList::new(&server.server_name(1)).unwrap());
    let writer = writer.connect().await.expect("a client");
    let mut states = client.connection_states();
    assert_eq!(states.next().await, Some(Ok(ConnectionState::Connected)));

    server.cut_off(0, Duration::ZERO);
    for state in [ConnectionState::Suspended, ConnectionState::Lost, ConnectionState::ReadOnly] {
        assert_eq!(within("the next state", SOON, states.next()).await, Some(Ok(state)));
    }
    writer.set("/a", b"new", None).await.expect("the others serve");
    assert_eq!(client.get("/a").await.expect("read").0, b"old");
    assert!(client.connection_state().is_connected());

    server.heal();
    for state in [ConnectionState::Suspended, ConnectionState::Lost, ConnectionState::Reconnected] {
        assert_eq!(within("the next state", SOON, states.next()).await, Some(Ok(state)));
    }
    assert_eq!(client.get("/a").await.expect("read").0, b"new");
}

#[tokio::test(start_paused = true)]
async fn one_can_begin_on_such_a_server_and_nothing_keeps_it_busy() {
    let server = servers().await;
    server.cut_off(0, Duration::ZERO);
    let (_, client) = reader(&server).await;
    let mut states = client.connection_states();
    assert_eq!(states.next().await, Some(Ok(ConnectionState::ReadOnly)), "the first state");
    let before = client.request_counts();
    tokio::time::sleep(T * 10).await;
    let sent = client.request_counts() - before;
    assert_eq!((sent.total(), sent.heartbeats), (0, 0), "nothing is held");
    assert_eq!(client.get("/a").await.expect("read").0, b"old");
    let opened = client.session_id();
    assert!(server.sessions().iter().all(|session| Some(session.id) != opened), "no other server knows it");
    server.disconnect(&client);
    for state in [ConnectionState::Suspended, ConnectionState::ReadOnly] {
        assert_eq!(within("the next state", SOON, states.next()).await, Some(Ok(state)));
    }
    assert_eq!(client.session_id(), opened, "the server itself knows it");
    server.heal();
    for state in [ConnectionState::Suspended, ConnectionState::Lost, ConnectionState::Reconnected] {
        assert_eq!(within("the next state", SOON, states.next()).await, Some(Ok(state)));
    }
    assert_eq!(client.get("/a").await.expect("read").0, b"old");
    assert_ne!(client.session_id(), opened);
    client.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn it_moves_to_a_server_that_takes_part_in_the_ensemble() {
    let server = servers().await;
    let (servers, client) = cut_off_reader(&server).await;
    server.cut_off(2, Duration::ZERO);
    // The first server is still there, and the third is as it is.
    servers.replace(&[0, 2, 1].map(|number| server.server_name(number)).join(",")).expect("a list");
    is(&client, ConnectionState::Reconnected).await;
    let session = client.session_id();
    assert!(server.sessions().iter().any(|known| Some(known.id) == session && known.server == Some(1)));
}

#[tokio::test(start_paused = true)]
async fn it_holds_and_writes_nothing_on_any_server() {
    let server = servers().await;
    let (_, client) = reader(&server).await;
    let before = client.request_counts();
    let refused = [
        client.create("/b", b"", CreateMode::Persistent).await.map(drop),
        client.set("/a", b"", None).await.map(drop),
        client.delete("/a", None).await,
        client.transaction().set_data("/a", b"", None).commit().await.map(drop),
    ];
    for outcome in refused {
        let error = outcome.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        assert!(error.to_string().contains("read_only(true)"), "{error}");
        assert!(!error.is_retryable() && !error.is_lost());
    }
    let containers = client.create_containers("/b").await.expect_err("refused");
    let below = client.delete_recursive("/a").await.expect_err("refused");
    assert_eq!((containers.kind(), below.kind()), (ErrorKind::ReadOnly, ErrorKind::ReadOnly));
    let transferred = transfer(&client, "/latch", "a", T).await.expect_err("refused");
    assert_eq!(transferred.kind(), ErrorKind::ReadOnly, "{transferred}");
    assert_eq!((client.request_counts() - before).total(), 0, "nothing was sent");
    let mutex = InterProcessMutex::new(&client, "/lock").expect_err("refused");
    let latch = LeaderLatch::builder(&client, "/latch").start().expect_err("refused");
    for error in [mutex.to_string(), latch.to_string()] {
        assert!(error.contains("read_only(true)"), "{error}");
    }
    assert_eq!(server.children("/"), ["a"]);
    server.refuse(&client);
    server.disconnect(&client);
    is(&client, ConnectionState::Suspended).await;
    let error = client.set("/a", b"", None).now_or_never().expect("at once").expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "also without a connection");
}

#[tokio::test(start_paused = true)]
async fn what_reads_can_be_built_on_it() {
    let server = servers().await;
    let (_, client) = cut_off_reader(&server).await;
    let cache = Cache::node(&client, "/a").start().await.expect("a cache");
    let snapshot = cache.snapshot();
    assert_eq!(snapshot.root().and_then(|root| root.value()), Some(&b"old".to_vec()));
    assert!(!snapshot.is_fresh(), "what a read-only server tells may be old");
    assert_eq!(snapshot.age(), Duration::MAX);
    let mut synced = std::pin::pin!(cache.synced());
    assert!(tokio::time::timeout(T * 10, &mut synced).await.is_err(), "only another server can confirm it");

    let writer = Client::builder_for_testing(&server).server_list(&ServerList::new(&server.server_name(1)).unwrap());
    writer.connect().await.expect("a client").set("/a", b"new", None).await.expect("the others serve");
    server.heal();
    let data = || cache.snapshot().root().and_then(|root| root.value().cloned());
    within("it catches up", SOON, server.until(|| data().is_some_and(|data| data == b"new"))).await;
    within("it is fresh", SOON, server.until(|| cache.snapshot().is_fresh())).await;
    let synced = within("it is confirmed", SOON, synced).await.expect("synced");
    assert_eq!(synced.root().and_then(|root| root.value()), Some(&b"new".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_it_follows_cannot_be_set() {
    let server = servers().await;
    let (_, client) = reader(&server).await;
    let value = SharedValue::builder(&client, "/a").seed("seed").start().await.expect("a value");
    let missing = SharedValue::builder(&client, "/b").seed("seed").start().await.expect_err("not created");
    assert!(missing.to_string().contains("read_only(true)"), "{missing}");
    assert_eq!(value.get().expect("there").value(), b"old");
    let error = within("it is refused", SOON, value.set("new")).await.expect_err("refused");
    assert!(error.to_string().contains("read_only(true)"), "{error}");
    assert_eq!(server.get("/a").expect("there"), b"old");
}

#[tokio::test(start_paused = true)]
async fn another_client_avoids_such_a_server() {
    let server = servers().await;
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let servers = ServerList::new(&server.server_name(0)).expect("a list");
        let builder = Client::builder_for_testing(&server).session_timeout(T).error_policy(policy);
        let client = builder.server_list(&servers).connect().await.expect("a client");
        server.cut_off(0, Duration::ZERO);
        is(&client, ConnectionState::Lost).await;
        let reads = client.get("/a");
        assert!(tokio::time::timeout(T * 10, reads).await.is_ok_and(|read| read.is_err()));
        server.heal();
        is(&client, ConnectionState::Reconnected).await;
        client.close().now_or_never();
    }
}
