//! Clients that cannot authenticate: each error names the principals, the reason, and what to do.

use zookeeper_recipes_gssapi::Gssapi;

use crate::fixture::{anonymous, at, builder, connect, is_put_off, is_turned_away, keytab};
use crate::realm::{DOWN, Realm, SKEWED};
use crate::servers;
use crate::support::ZooKeeper;

#[track_caller]
fn says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}

#[tokio::test]
async fn a_service_or_a_realm_that_the_kdc_does_not_know_is_final() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let address = at(server.addr());
    let judy = realm.keytab("judy", "").await;
    let judy = || keytab(&judy, "judy");
    let error = is_turned_away(builder(&address, judy().service("zoo").expect("a name"))).await;
    says(&error, &["judy (keytab ", "judy.keytab) for zoo/localhost: ", "not found in Kerberos database", "service()"]);
    let elsewhere = judy().server_principal("zookeeper/localhost@OTHER.TEST").expect("a principal");
    let error = is_turned_away(builder(&address, elsewhere)).await;
    says(&error, &["for zookeeper/localhost@OTHER.TEST: ", "krbtgt/OTHER.TEST@EXAMPLE.TEST not found", "realm"]);
}

#[tokio::test]
async fn a_keytab_without_a_key_that_the_kdc_takes_is_final() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let address = at(server.addr());
    let mallory = realm.keytab("mallory", "").await;
    let error = is_turned_away(builder(&address, keytab(&mallory, &format!("mallory@{DOWN}")))).await;
    says(&error, &["mallory@DOWN.TEST (keytab ", "the keytab has no key of this principal"]);

    realm.kdc.run("kadmin.local -q 'cpw -randkey mallory'").await;
    let error = is_turned_away(builder(&address, keytab(&mallory, "mallory"))).await;
    says(&error, &["mallory (keytab ", "export it again"]);

    realm.kdc.run("kadmin.local -q 'delprinc -force mallory'").await;
    let error = is_turned_away(builder(&address, keytab(&mallory, "mallory"))).await;
    says(&error, &["mallory (keytab ", "not found in Kerberos database", "create the principal"]);
}

/// It may be about to be replaced. One that cannot be read at the start is refused by [`Gssapi::keytab`].
#[tokio::test]
async fn a_keytab_that_is_gone_is_waited_for() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let path = realm.keytab("niaj", "").await;
    let content = std::fs::read(&path).expect("a keytab");
    let niaj = builder(&at(server.addr()), keytab(&path, "niaj"));
    std::fs::remove_file(&path).expect("it was there");
    let error = is_put_off(niaj.clone()).await;
    says(&error, &["niaj (keytab ", "niaj.keytab) for zookeeper/localhost: the keytab cannot be read (No such file"]);
    let missing = Gssapi::keytab(&path, "niaj").expect_err("it is gone").to_string();
    says(&missing, &["GSSAPI keytab ", "niaj.keytab\": it cannot be read (No such file"]);
    realm.file("niaj.keytab", &content);
    connect(niaj).await;
}

#[tokio::test]
async fn a_kdc_that_is_not_there_is_waited_for() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let path = realm.keytab(&format!("olivia@{DOWN}"), "").await;
    let olivia = keytab(&path, &format!("olivia@{DOWN}"));
    let error = is_put_off(builder(&at(server.addr()), olivia)).await;
    says(&error, &["olivia@DOWN.TEST (keytab ", "Cannot contact any KDC for realm 'DOWN.TEST'", "krb5.conf"]);
}

/// The KDC is an hour ahead of the server. The client keeps to the time of the KDC, as krb5.conf says by default.
#[tokio::test]
async fn a_server_whose_clock_is_not_that_of_the_kdc_refuses_the_ticket() {
    let realm = Realm::skewed().await;
    let server = servers::of(&realm).await;
    let path = realm.keytab("rupert", "").await;
    let server_principal = format!("zookeeper/localhost@{SKEWED}");
    let rupert = keytab(&path, &format!("rupert@{SKEWED}")).server_principal(&server_principal).expect("a principal");
    let error = is_turned_away(builder(&at(server.addr()), rupert)).await;
    says(&error, &["rupert@SKEWED.TEST (keytab ", &server_principal, "the server refused the ticket", "clock"]);
}

#[tokio::test]
async fn a_server_without_kerberos_is_refused() {
    let realm = Realm::shared().await;
    let server = ZooKeeper::shared().await;
    let path = realm.keytab("sybil", "").await;
    let address = at(server.addr());
    let error = is_turned_away(builder(&address, keytab(&path, "sybil"))).await;
    says(&error, &["sybil (keytab ", "answers without a token", "JAAS"]);
    connect(anonymous(&address)).await;
}
