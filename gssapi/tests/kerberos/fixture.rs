//! What several tests do with clients.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use zookeeper_recipes::{Client, ClientBuilder, CreateMode, Error, ErrorKind, Sasl};
use zookeeper_recipes_gssapi::Gssapi;

use crate::support::within;

/// The session timeout: longer than the tickets that expire during a test.
pub(crate) const T: Duration = Duration::from_secs(40);
/// How long anything may take that is only a matter of requests and answers, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The address as a connect string with the host that the server's principal has.
pub(crate) fn at(address: SocketAddr) -> String {
    format!("localhost:{}", address.port())
}

pub(crate) fn keytab(path: &Path, principal: &str) -> Gssapi {
    Gssapi::keytab(path, principal).expect("a keytab")
}

pub(crate) fn cache(path: &Path) -> Gssapi {
    Gssapi::cache(path.to_str().expect("a path")).expect("the name of a cache")
}

pub(crate) fn anonymous(connect_string: &str) -> ClientBuilder {
    Client::builder(connect_string)
        .session_timeout(T)
        .tick_time(Duration::from_millis(500))
        .connection_timeout(Duration::from_secs(10))
}

pub(crate) fn builder(connect_string: &str, mechanism: Gssapi) -> ClientBuilder {
    anonymous(connect_string).sasl(Sasl::mechanism(mechanism))
}

pub(crate) async fn connect(builder: ClientBuilder) -> Client {
    let connecting = within("a client connects", SOON, builder.connect());
    connecting.await.unwrap_or_else(|error| panic!("the client connects: {error} ({:?})", error.kind()))
}

/// Returns the error of a client that must not connect.
async fn refused(builder: ClientBuilder) -> Error {
    let connecting = within("a client hears that it cannot connect", SOON, builder.connect());
    let error = connecting.await.map(|client| panic!("{client:?} connected")).unwrap_err();
    assert!(!error.to_string().contains('\n'), "more than one line: {error}");
    println!("{error}");
    error
}

/// The client hears that its credentials are refused, long before it would give up. Returns the error.
pub(crate) async fn is_turned_away(builder: ClientBuilder) -> String {
    let error = refused(builder.connection_timeout(SOON * 3)).await;
    assert_eq!(error.kind(), ErrorKind::AuthFailed, "{error}");
    error.to_string()
}

/// The client tries until its connection timeout is over. Returns the error.
pub(crate) async fn is_put_off(builder: ClientBuilder) -> String {
    let error = refused(builder.connection_timeout(Duration::from_secs(4))).await;
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
    assert!(error.is_retryable(), "{error}");
    error.to_string()
}

/// Creates a node, changes it and reads it back.
pub(crate) async fn writes_and_reads(client: &Client, path: &str) {
    client.create(path, b"new", CreateMode::Persistent).await.expect("created");
    client.set(path, b"changed", None).await.expect("changed");
    assert_eq!(client.get(path).await.expect("read").0, b"changed");
}

/// The client may not read the node.
pub(crate) async fn may_not_read(client: &Client, path: &str) {
    let error = client.get(path).await.expect_err("the client has no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
}
