//! Credentials as in ZooKeeper's `addauth`.

use zookeeper_recipes::{Acl, ClientBuilder};

use super::fixture::{
    builder, connect, has_another_session, is_turned_away, leads, leads_again, may_not_read, writes_and_reads,
};
use super::servers::open;
use crate::support::{Proxy, unique_path};

/// Nodes that it creates are accessible with its own credentials only.
fn with(credentials: &str, connect_string: &str) -> ClientBuilder {
    builder(connect_string).auth("digest", credentials).acls([Acl::creator_all()])
}

#[tokio::test]
async fn what_a_client_creates_is_for_its_credentials_only() {
    let server = open().await;
    let path = unique_path("digest");
    let client = connect(with("carol:right", &server.connect_string())).await;
    writes_and_reads(&client, &path).await;
    let same = connect(with("carol:right", &server.connect_string())).await;
    assert_eq!(same.get(&path).await.expect("the same credentials").0, b"changed");
    let wrong = connect(with("carol:wrong", &server.connect_string())).await;
    may_not_read(&wrong, &path).await;
    let without = connect(builder(&server.connect_string())).await;
    may_not_read(&without, &path).await;
    let several =
        connect(builder(&server.connect_string()).auth("digest", "dave:x").auth("digest", "carol:right")).await;
    several.get(&path).await.expect("one of several credentials");
}

#[tokio::test]
async fn the_credentials_are_presented_again_on_every_connection_and_in_every_session() {
    let server = open().await;
    let proxy = Proxy::start(server.addr()).await;
    let (path, election) = (unique_path("digest"), unique_path("digest-election"));
    let client = connect(with("carol:right", &proxy.connect_string())).await;
    writes_and_reads(&client, &path).await;
    let latch = leads(&client, &election).await;
    let session = client.session_id().expect("a session");

    proxy.cut().await;
    client.get(&path).await.expect("on the next connection");
    assert_eq!(client.session_id(), Some(session));

    proxy.kill_session().await;
    has_another_session(&client, session).await;
    client.get(&path).await.expect("in the next session");
    leads_again(&latch).await;
}

#[tokio::test]
async fn a_scheme_that_the_server_does_not_know_is_refused() {
    let server = open().await;
    let address = server.connect_string();
    is_turned_away(builder(&address).auth("nonsense", "carol:right"), &address).await;
}
