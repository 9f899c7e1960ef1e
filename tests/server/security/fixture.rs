//! Shared by the tests of encryption and authentication.

use std::time::{Duration, Instant};

use crate::support::{Fault, Proxy, eventually, within};
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{Client, ClientBuilder, ConnectionState, CreateMode, Error, ErrorKind};

/// The session timeout of the tests.
pub(crate) const T: Duration = Duration::from_secs(4);
/// How long anything may take that is only a matter of requests and answers, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// The extra time after a limit until the caller has its answer.
pub(crate) const SLACK: Duration = Duration::from_secs(1);

pub(crate) fn builder(connect_string: &str) -> ClientBuilder {
    Client::builder(connect_string)
        .session_timeout(T)
        .tick_time(Duration::from_millis(500))
        .connection_timeout(Duration::from_secs(10))
}

pub(crate) async fn connect(builder: ClientBuilder) -> Client {
    let connecting = within("a client connects", SOON, builder.connect());
    connecting.await.unwrap_or_else(|error| panic!("the client connects: {error} ({:?})", error.kind()))
}

/// The error of a client that must not connect.
pub(crate) async fn refused(builder: ClientBuilder) -> Error {
    let connecting = within("a client hears that it cannot connect", SOON, builder.connect());
    match connecting.await {
        Ok(client) => panic!("{client:?} connected"),
        Err(error) => error,
    }
}

/// The client keeps trying until its connection timeout is over, and then names the server.
pub(crate) async fn never_connects(builder: ClientBuilder, server: &str) {
    let limit = Duration::from_secs(1);
    let begun = Instant::now();
    let error = refused(builder.connection_timeout(limit)).await;
    let took = begun.elapsed();
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
    assert!(error.to_string().contains(server), "{error}");
    assert!((limit..limit + SLACK).contains(&took), "{took:?}: {error}");
}

/// The server says no, and the client passes it on at once.
pub(crate) async fn is_turned_away(builder: ClientBuilder, server: &str) {
    let limit = Duration::from_secs(10);
    let begun = Instant::now();
    let error = refused(builder.connection_timeout(limit)).await;
    assert_eq!(error.kind(), ErrorKind::AuthFailed, "{error}");
    assert!(!error.is_retryable());
    assert!(error.to_string().contains(server), "{error}");
    assert!(begun.elapsed() < limit / 2, "it does not ask again and again");
}

/// Creates a node, changes it and reads it back.
pub(crate) async fn writes_and_reads(client: &Client, path: &str) {
    client.create(path, b"new", CreateMode::Persistent).await.expect("created");
    assert_eq!(client.get(path).await.expect("read").0, b"new");
    client.set(path, b"changed", None).await.expect("changed");
    assert_eq!(client.get(path).await.expect("read again").0, b"changed");
}

/// Starts a latch and waits until it leads.
pub(crate) async fn leads(client: &Client, path: &str) -> LeaderLatch {
    let latch = LeaderLatch::builder(client, path).start().expect("the latch starts");
    leads_again(&latch).await;
    latch
}

pub(crate) async fn leads_again(latch: &LeaderLatch) {
    let leadership = within("leadership", SOON, latch.wait_for_leadership()).await.expect("leadership");
    assert!(leadership.is_held());
}

/// The client may not read the node.
pub(crate) async fn may_not_read(client: &Client, path: &str) {
    let error = client.get(path).await.expect_err("the client has no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
}

/// Waits until the client has another session than `old`.
pub(crate) async fn has_another_session(client: &Client, old: i64) {
    eventually("another session", SOON, async || {
        client.session_id().is_some_and(|id| id != old) && client.connection_state() == ConnectionState::Reconnected
    })
    .await;
}

/// Keeps the client away from the server until it gives its session up, and lets it open the next one. For servers
/// that do not let the proxy kill a session.
pub(crate) async fn outlives_its_session(client: &Client, proxy: &Proxy) {
    let old = client.session_id().expect("a session");
    proxy.set(Fault::Refuse).await;
    eventually("the session is given up", SOON, async || client.connection_state() == ConnectionState::Lost).await;
    proxy.set(Fault::Pass).await;
    has_another_session(client, old).await;
}
