//! Tickets that expire and are renewed while a client holds something.

use std::path::Path;
use std::time::Duration;

use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};
use zookeeper_recipes::{Client, ConnectionState, ErrorPolicy};

use crate::fixture::{SOON, at, builder, cache, connect, is_put_off, keytab};
use crate::realm::{PAUSED, Realm};
use crate::servers;
use crate::support::{Proxy, eventually, unique_path, within};

/// How long a ticket lasts that is to expire, in seconds.
const SHORT: u32 = 6;

async fn lock(client: &Client, path: &str) -> MutexGuard {
    let mutex = InterProcessMutex::new(client, path).expect("a path");
    within("the lock", SOON, mutex.acquire()).await.expect("the lock")
}

#[tokio::test]
async fn a_keytab_renews_its_ticket_at_the_next_connection_and_the_lock_is_kept() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let proxy = Proxy::start(server.addr()).await;
    let frank = realm.keytab("frank", &format!("-maxlife \"{SHORT} seconds\"")).await;
    let builder = builder(&at(proxy.addr()), keytab(&frank, "frank")).error_policy(ErrorPolicy::Session);
    let client = connect(builder).await;
    let session = client.session_id().expect("a session");
    let guard = lock(&client, &unique_path("renewed")).await;

    // A ticket that begins later than the client's.
    realm.cache("frank.cache", "frank", SHORT).await;
    realm.kdc.expires("/tmp/frank.cache").await;
    assert!(guard.is_held(), "a ticket matters only when a connection is made");
    let issued = realm.kdc.issued("frank").await;
    proxy.cut().await;
    client.get("/").await.expect("on the next connection");
    assert_eq!((client.session_id(), guard.is_held()), (Some(session), true));
    assert!(realm.kdc.issued("frank").await > issued);
}

/// Calls to a KDC that hangs outlast the attempts of the client, and the futures that waited for them were dropped.
#[tokio::test]
async fn a_kdc_that_hangs_matters_only_to_who_needs_a_ticket_and_only_as_long_as_it_hangs() {
    let realm = Realm::paused().await;
    let server = servers::of(&realm).await;
    let proxy = Proxy::start(server.addr()).await;
    let paths = [realm.keytab("grace", "").await, realm.keytab("peggy", "").await];
    let user = |path: &Path, name: &str| {
        let mechanism = keytab(path, &format!("{name}@{PAUSED}"));
        let mechanism = mechanism.server_principal(&format!("zookeeper/localhost@{PAUSED}")).expect("a principal");
        // Of the session timeout depends how long the client waits for the mechanism.
        builder(&at(proxy.addr()), mechanism).session_timeout(Duration::from_secs(4))
    };
    let (grace, peggy) = (user(&paths[0], "grace"), user(&paths[1], "peggy"));
    let client = connect(grace.clone()).await;
    realm.kdc.pause().await;
    proxy.cut().await;
    client.get("/").await.expect("on the next connection");
    // Another mechanism with the same keytab finds the ticket as well.
    connect(user(&paths[0], "grace")).await;
    let error = is_put_off(peggy.clone()).await;
    assert!(error.contains("SASL GSSAPI: the mechanism took longer than"), "{error}");

    realm.kdc.unpause().await;
    connect(peggy).await;
    assert_eq!(realm.kdc.issued("grace").await, 1);
}

#[tokio::test]
async fn a_cache_that_another_program_renews_in_time_is_read_at_the_next_connection() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let proxy = Proxy::start(server.addr()).await;
    realm.keytab("heidi", "").await;
    let path = realm.cache("heidi.cache", "heidi", SHORT).await;
    let builder = builder(&at(proxy.addr()), cache(&path)).error_policy(ErrorPolicy::Session);
    let client = connect(builder).await;
    let guard = lock(&client, &unique_path("cache")).await;
    realm.kdc.expires("/tmp/heidi.cache").await;
    realm.cache("heidi.cache", "heidi", 3600).await;
    proxy.cut().await;
    client.get("/").await.expect("on the next connection");
    assert!(guard.is_held());
}

/// The connection is lost after the ticket has expired, and the cache is renewed later than that.
#[tokio::test]
async fn an_expired_ticket_keeps_a_client_away_until_it_is_renewed_and_ends_no_session() {
    let realm = Realm::shared().await;
    let server = servers::shared(&realm).await;
    let proxy = Proxy::start(server.addr()).await;
    realm.keytab("ivan", "").await;
    let path = realm.cache("ivan.cache", "ivan", SHORT).await;
    let ivan = || builder(&at(proxy.addr()), cache(&path)).error_policy(ErrorPolicy::Session);
    let client = connect(ivan()).await;
    let session = client.session_id().expect("a session");
    let guard = lock(&client, &unique_path("expired")).await;
    realm.kdc.expires("/tmp/ivan.cache").await;

    let before = proxy.accepted();
    proxy.cut().await;
    eventually("the client tries several times", SOON, async || proxy.accepted() > before + 4).await;
    assert_ne!(client.connection_state(), ConnectionState::Lost);
    assert_eq!(client.session_id(), Some(session));
    let error = is_put_off(ivan()).await;
    assert!(error.contains("for zookeeper/localhost: ") && error.contains("expired"), "{error}");
    assert!(error.contains("ivan.cache") && error.contains("renew the ticket with kinit"), "{error}");

    realm.cache("ivan.cache", "ivan", 3600).await;
    eventually("the client is back", SOON, async || client.connection_state() == ConnectionState::Reconnected).await;
    assert_eq!((client.session_id(), guard.is_held()), (Some(session), true));
}
