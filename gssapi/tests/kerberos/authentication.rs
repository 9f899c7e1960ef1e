//! Clients that the servers know.

use zookeeper_recipes::{Acl, ClientBuilder, Permissions, Tls};
use zookeeper_recipes_gssapi::Gssapi;

use crate::fixture::{
    anonymous, at, builder, cache, connect, is_put_off, is_turned_away, keytab, may_not_read, writes_and_reads,
};
use crate::realm::{REALM, Realm, default_cache};
use crate::servers::{self, AUTHORITY, SECURE_PORT};
use crate::support::unique_path;

fn only(user: &str, builder: ClientBuilder) -> ClientBuilder {
    builder.acls([Acl::new(Permissions::ALL, "sasl", user)])
}

#[tokio::test]
async fn a_keytab_opens_what_is_for_its_principal_only() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let (address, path) = (at(server.addr()), unique_path("keytab"));
    let (alice, bob) = (realm.keytab("alice", "").await, realm.keytab("bob", "").await);
    let alice = builder(&address, keytab(&alice, &format!("alice@{REALM}")));
    let client = connect(only(&format!("alice@{REALM}"), alice)).await;
    writes_and_reads(&client, &path).await;
    // Without a realm, the principal is of the default one.
    may_not_read(&connect(builder(&address, keytab(&bob, "bob"))).await, &path).await;
    may_not_read(&connect(anonymous(&address)).await, &path).await;
}

#[tokio::test]
async fn a_ticket_cache_opens_what_is_for_its_principal_only() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let (address, path) = (at(server.addr()), unique_path("cache"));
    realm.keytab("carol", "").await;
    let named = realm.cache("carol.cache", "carol", 3600).await;
    let client = connect(only(&format!("carol@{REALM}"), builder(&address, cache(&named)))).await;
    writes_and_reads(&client, &path).await;

    std::fs::copy(&named, default_cache()).expect("a default cache");
    let client = connect(builder(&address, Gssapi::default_cache())).await;
    client.get(&path).await.expect("the same principal");
    std::fs::remove_file(default_cache()).expect("it is there");
    let error = is_put_off(builder(&address, Gssapi::default_cache())).await;
    assert!(error.contains("SASL GSSAPI: the default ticket cache for zookeeper/localhost: "), "{error}");
    assert!(error.contains("kinit"), "{error}");
}

#[tokio::test]
async fn the_host_in_the_principal_is_that_of_the_connect_string_the_canonical_one_or_fixed() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let dave = realm.keytab("dave", "").await;
    let dave = || keytab(&dave, "dave");
    let by_address = server.connect_string();
    let error = is_turned_away(builder(&by_address, dave())).await;
    assert!(error.contains("dave (keytab ") && error.contains("for zookeeper/127.0.0.1: "), "{error}");
    assert!(error.contains(&format!("zookeeper/127.0.0.1@{REALM} not found in Kerberos database")), "{error}");
    connect(builder(&by_address, dave().canonicalize_host(true))).await;
    let fixed = dave().server_principal(&format!("zookeeper/localhost@{REALM}")).expect("a principal");
    connect(builder(&by_address, fixed)).await;
    let by_name = dave().server_principal(&format!("zookeeper/_HOST@{REALM}")).expect("a principal");
    connect(builder(&at(server.addr()), by_name)).await;
}

/// The certificate opens the connection, and the ticket names the user: without its realm, as this server is told.
#[tokio::test]
async fn a_client_certificate_and_a_ticket_go_together() {
    let realm = Realm::shared().await;
    let server = servers::with_tls(&realm).await;
    let erin = realm.keytab("erin", "").await;
    let (secure, identity) = (at(server.addr_of(SECURE_PORT)), AUTHORITY.client("erin"));
    let trusting = Tls::new().ca_pem(&AUTHORITY.pem).expect("an authority");
    let tls = trusting.clone().identity_pem(&identity.certificate, &identity.key).expect("an identity");
    let path = unique_path("tls");
    let client = connect(only("erin", builder(&secure, keytab(&erin, "erin")).tls(tls.clone()))).await;
    writes_and_reads(&client, &path).await;
    // Each alone is not enough.
    is_turned_away(anonymous(&secure).tls(tls)).await;
    is_put_off(builder(&secure, keytab(&erin, "erin")).tls(trusting)).await;
}
