//! TLS, on a server that asks for the client's certificate.

use tokio::net::TcpStream;
use zookeeper_recipes::{Acl, ClientBuilder, Permissions, Sasl, Tls};

use super::fixture::{
    builder, connect, is_turned_away, leads, leads_again, may_not_read, never_connects, outlives_its_session,
    writes_and_reads,
};
use super::servers::{ALICE, AUTHORITY, BOB, SERVER, open, secure_port};
use crate::support::certificates::{Authority, Identity};
use crate::support::unique_path;

/// Trusts the right authority and shows no certificate.
fn trusting() -> Tls {
    Tls::new().ca_pem(&AUTHORITY.pem).expect("an authority")
}

/// Trusts the right authority and shows this certificate.
fn showing(identity: &Identity) -> Tls {
    trusting().identity_pem(&identity.certificate, &identity.key).expect("an identity")
}

/// A client that the server accepts.
fn right(connect_string: &str) -> ClientBuilder {
    builder(connect_string).tls(showing(&AUTHORITY.client("client")))
}

#[tokio::test]
async fn an_encrypted_client_writes_reads_and_leads() {
    let server = open().await;
    let proxy = secure_port(&server).await;
    let client = connect(right(&proxy.connect_string())).await;
    writes_and_reads(&client, &unique_path("tls")).await;
    let _leader = leads(&client, &unique_path("tls-election")).await;
    // Nothing that the proxy can read came by.
    assert!(proxy.sessions().is_empty() && proxy.requests().is_empty(), "{:?}", proxy.sessions());
}

#[tokio::test]
async fn a_server_whose_authority_is_not_trusted_is_not_used() {
    let server = open().await;
    let proxy = secure_port(&server).await;
    let address = proxy.connect_string();
    // It has the name of the right one.
    let other = Authority::new("authority").pem;
    let client = AUTHORITY.client("client");
    let with = |authorities: &str| {
        let tls = Tls::new().ca_pem(authorities).expect("authorities");
        builder(&address).tls(tls.identity_pem(&client.certificate, &client.key).expect("an identity"))
    };
    never_connects(with(&other), &address).await;
    // One of several authorities is enough.
    connect(with(&format!("{other}{}", AUTHORITY.pem))).await;
}

#[tokio::test]
async fn a_server_with_a_certificate_for_another_host_is_not_used() {
    let server = open().await;
    let proxy = secure_port(&server).await;
    let other_name = format!("localhost:{}", proxy.addr().port());
    TcpStream::connect(&other_name).await.expect("it is the same server");
    never_connects(right(&other_name), &other_name).await;
    connect(right(&proxy.connect_string())).await;
}

#[tokio::test]
async fn a_revoked_server_is_not_used() {
    let server = open().await;
    let proxy = secure_port(&server).await;
    let address = proxy.connect_string();
    let client = AUTHORITY.client("client");
    let with = |revocations: String| {
        let tls = Tls::new().ca_pem(&(AUTHORITY.pem.clone() + &revocations)).expect("an authority and a list");
        builder(&address).tls(tls.identity_pem(&client.certificate, &client.key).expect("an identity"))
    };
    never_connects(with(AUTHORITY.revocations(&[&SERVER])), &address).await;
    connect(with(AUTHORITY.revocations(&[&AUTHORITY.server(&["another"])]))).await;
}

#[tokio::test]
async fn a_client_without_a_certificate_that_the_server_trusts_is_not_let_in() {
    let server = open().await;
    let proxy = secure_port(&server).await;
    let address = proxy.connect_string();
    never_connects(builder(&address).tls(trusting()), &address).await;
    let foreign = Authority::new("authority").client("client");
    never_connects(builder(&address).tls(showing(&foreign)), &address).await;
    connect(right(&address)).await;
}

#[tokio::test]
async fn plain_text_and_tls_do_not_meet() {
    let server = open().await;
    let proxy = secure_port(&server).await;
    let address = proxy.connect_string();
    never_connects(builder(&address), &address).await;
    never_connects(right(&server.connect_string()), &server.connect_string()).await;
    // A prefix decides for its host.
    let encrypted = format!("tcp+tls://{address}");
    connect(builder(&encrypted).tls(showing(&AUTHORITY.client("client")))).await;
    connect(right(&format!("tcp://{}", server.connect_string()))).await;
}

#[tokio::test]
async fn the_certificate_tells_the_server_who_the_client_is() {
    let server = open().await;
    let proxy = secure_port(&server).await;
    let address = proxy.connect_string();
    let path = unique_path("x509");
    let carol = || builder(&address).tls(showing(&AUTHORITY.client("carol")));
    let client = connect(carol().acls([Acl::new(Permissions::ALL, "x509", "CN=carol")])).await;
    writes_and_reads(&client, &path).await;
    let dave = connect(builder(&address).tls(showing(&AUTHORITY.client("dave")))).await;
    may_not_read(&dave, &path).await;
    let again = connect(carol()).await;
    assert_eq!(again.get(&path).await.expect("a new certificate of the same name").0, b"changed");
}

#[tokio::test]
async fn the_next_connection_and_the_next_session_are_encrypted_too() {
    let server = open().await;
    let proxy = secure_port(&server).await;
    let path = unique_path("tls");
    let client = connect(right(&proxy.connect_string())).await;
    writes_and_reads(&client, &path).await;
    let latch = leads(&client, &unique_path("tls-election")).await;
    let session = client.session_id();

    proxy.cut().await;
    client.get(&path).await.expect("on the next connection");
    assert_eq!(client.session_id(), session);

    outlives_its_session(&client, &proxy).await;
    client.get(&path).await.expect("in the next session");
    leads_again(&latch).await;
}

#[tokio::test]
async fn sasl_works_over_tls() {
    let server = open().await;
    let proxy = secure_port(&server).await;
    let address = proxy.connect_string();
    let path = unique_path("sasl-over-tls");
    let user = |(name, password)| right(&address).sasl(Sasl::digest_md5(name, password).expect("a user name"));
    let alice = connect(user(ALICE).acls([Acl::new(Permissions::ALL, "sasl", ALICE.0)])).await;
    writes_and_reads(&alice, &path).await;
    let bob = connect(user(BOB)).await;
    may_not_read(&bob, &path).await;
    is_turned_away(user((ALICE.0, BOB.1)), &address).await;
}
