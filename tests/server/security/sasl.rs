//! SASL DIGEST-MD5.

use zookeeper_recipes::{Acl, ClientBuilder, Permissions, Sasl};

use super::fixture::{
    builder, connect, has_another_session, is_turned_away, leads, leads_again, may_not_read, outlives_its_session,
    writes_and_reads,
};
use super::servers::{ALICE, BOB, members_only, open};
use crate::support::{Proxy, ZooKeeper, unique_path};

fn user((name, password): (&str, &str), connect_string: &str) -> ClientBuilder {
    builder(connect_string).sasl(Sasl::digest_md5(name, password).expect("a user name"))
}

/// Nodes that it creates are accessible to alice only.
fn alice(connect_string: &str) -> ClientBuilder {
    user(ALICE, connect_string).acls([Acl::new(Permissions::ALL, "sasl", ALICE.0)])
}

#[tokio::test]
async fn the_right_password_opens_what_is_for_this_user_only() {
    let server = open().await;
    let (path, election) = (unique_path("sasl"), unique_path("sasl-election"));
    let client = connect(alice(&server.connect_string())).await;
    writes_and_reads(&client, &path).await;
    let latch = leads(&client, &election).await;
    let other = connect(user(BOB, &server.connect_string())).await;
    may_not_read(&other, &path).await;
    let without = connect(builder(&server.connect_string())).await;
    may_not_read(&without, &path).await;
    may_not_read(&without, &latch.our_path().expect("a leader has a node")).await;
}

#[tokio::test]
async fn a_wrong_password_or_user_is_refused() {
    // Over both of the server's connection layers.
    for server in [open().await, members_only().await] {
        let address = server.connect_string();
        is_turned_away(user((ALICE.0, BOB.1), &address), &address).await;
        is_turned_away(user((ALICE.0, ""), &address), &address).await;
        // Not with the password of a user: servers without the fix of ZOOKEEPER-4839, such as 3.8.0, compare it with
        // that of the user who authenticated last, whatever the name.
        is_turned_away(user(("mallory", "wrong"), &address), &address).await;
        connect(user(ALICE, &address)).await;
    }
}

#[tokio::test]
async fn a_server_for_members_only_refuses_who_does_not_authenticate() {
    let server = members_only().await;
    let address = server.connect_string();
    is_turned_away(builder(&address), &address).await;
    // Credentials of another kind are not enough.
    is_turned_away(builder(&address).auth("digest", "alice:wonder land"), &address).await;
    let client = connect(alice(&address)).await;
    writes_and_reads(&client, &unique_path("members")).await;
}

#[tokio::test]
async fn the_user_is_authenticated_again_on_every_connection_and_in_every_session() {
    let server = open().await;
    let proxy = Proxy::start(server.addr()).await;
    let (path, election) = (unique_path("sasl"), unique_path("sasl-election"));
    let client = connect(alice(&proxy.connect_string())).await;
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
async fn a_server_for_members_only_lets_a_member_come_back() {
    let server = members_only().await;
    let proxy = Proxy::start(server.addr()).await;
    let path = unique_path("members");
    let client = connect(alice(&proxy.connect_string())).await;
    writes_and_reads(&client, &path).await;
    let latch = leads(&client, &unique_path("members-election")).await;
    let session = client.session_id();

    proxy.cut().await;
    client.get(&path).await.expect("on the next connection");
    assert_eq!(client.session_id(), session);

    outlives_its_session(&client, &proxy).await;
    client.get(&path).await.expect("in the next session");
    leads_again(&latch).await;
}

#[tokio::test]
async fn a_server_without_sasl_is_refused() {
    let server = ZooKeeper::shared().await;
    let address = server.connect_string();
    is_turned_away(alice(&address), &address).await;
    connect(builder(&address)).await;
}

#[test]
fn the_password_stays_out_of_debug_output() {
    let shown = format!("{:?} {:?}", Sasl::digest_md5(ALICE.0, ALICE.1).expect("a user name"), alice("host:2181"));
    assert!(shown.contains("host:2181") && !shown.contains(ALICE.1), "{shown}");
}
