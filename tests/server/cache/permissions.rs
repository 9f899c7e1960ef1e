//! What the client may not read, and the root of the connect string.

use std::time::Duration;

use zookeeper::{Acl, Acls, AuthId, Permission};
use zookeeper_recipes::cache::{Cache, Change, Content};
use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::*;
use crate::support::{eventually, unique_path, within};

async fn set_acl(fixture: &Fixture, path: &str, acl: &[Acl]) {
    fixture.observer.client().set_acl(path, acl, None).await.expect("the ACL is set");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_and_a_list_without_permission_are_told_as_such_and_come_with_the_permission() {
    let fixture = Fixture::with_directory("denied").await;
    let (observer, path) = (&fixture.observer, &fixture.path);
    create(observer, path, &[("/open", "1"), ("/closed", "2"), ("/dir", "3"), ("/dir/child", "4")]).await;
    // No client has this password, and a change of the ACL needs only ADMIN.
    let closed = [
        Acl::new(Permission::ALL, AuthId::new("digest", "stranger:AAAA")),
        Acl::new(Permission::ADMIN, AuthId::anyone()),
    ];
    let (closed_node, dir) = (format!("{path}/closed"), format!("{path}/dir"));
    for denied in [&closed_node, &dir] {
        set_acl(&fixture, denied, &closed).await;
    }
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard).await;
    let cache = tree(&client, path).await;
    let now = cache.snapshot();
    for denied in [&closed_node, &dir] {
        let node = now.get(denied).unwrap_or_else(|| panic!("{denied} is there"));
        assert!(matches!(node.content(), Content::Denied), "{node:?}");
        assert!(node.value().is_none());
    }
    assert_eq!(text(&now, &format!("{path}/open")).as_deref(), Some("1"));
    let unlistable: Vec<&str> = now.unlistable().collect();
    assert!(unlistable.contains(&dir.as_str()), "{unlistable:?}");
    assert!(now.get(&format!("{dir}/child")).is_none());
    assert_eq!(cache.last_error(), None, "a state of the node, and no error of the cache");

    let mut changes = cache.changes();
    for denied in [&closed_node, &dir] {
        set_acl(&fixture, denied, Acls::anyone_all().as_ref()).await;
    }
    // The servers do not tell of it; a comparison does.
    proxy.cut().await;
    let words = until_synced(path, &mut changes).await;
    assert_eq!(words, ["~/closed", "~/dir", "+/dir/child"]);
    let now = cache.snapshot();
    assert_eq!(now.unlistable().count(), 0);
    assert_eq!(contents(&now), on_server(observer, path).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chroot_that_is_deleted_is_an_error_until_it_is_there_again() {
    let fixture = Fixture::new("chroot").await;
    let chroot = unique_path("chroot");
    fixture.observer.create_all(&format!("{chroot}/app")).await;
    let hosts = format!("{}{chroot}", fixture.server.connect_string());
    let client = connect(builder(&hosts, Duration::from_secs(10))).await;
    let cache = tree(&client, "/app").await;
    let mut changes = cache.changes();
    delete(&fixture.observer, &chroot, &["/app", ""]).await;
    let Change::Removed { old } = next(&mut changes).await else { panic!("it is removed") };
    assert_eq!(old.path(), "/app");
    let Change::Failed(error) = next(&mut changes).await else { panic!("it fails") };
    assert_eq!(error.kind(), ErrorKind::NoNode, "{error}");
    assert!(cache.snapshot().is_empty());
    assert_eq!(cache.last_error(), Some(error.clone()));
    assert_eq!(within("an answer", SOON, cache.synced()).await.expect_err("there is no root"), error);
    let before = client.request_counts();
    // Heartbeats confirm nothing.
    eventually("it is old", SOON, || async { !cache.snapshot().is_fresh() }).await;
    let since = client.request_counts() - before;
    assert!(since.heartbeats > 0 && since.total() == 0, "nothing is polled: {since:?}");

    create(&fixture.observer, &chroot, &[("", ""), ("/app", "back")]).await;
    eventually("the cache is back", SOON, || async { text(&cache.snapshot(), "/app").as_deref() == Some("back") })
        .await;
    assert_eq!(cache.last_error(), None);
    assert_eq!(text(&synced(&cache).await, "/app").as_deref(), Some("back"));
    // The next heartbeat confirms it at the latest.
    eventually("it is fresh", SOON, || async { cache.snapshot().is_fresh() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_chroot_is_no_empty_tree() {
    let fixture = Fixture::new("chroot").await;
    let chroot = unique_path("chroot");
    let hosts = format!("{}{chroot}", fixture.server.connect_string());
    let client = connect(builder(&hosts, Duration::from_secs(10))).await;
    for path in ["/", "/app", "/app/config"] {
        let started = within("an answer", SOON, Cache::tree(&client, path).start()).await;
        let error = started.expect_err("there is no root");
        assert_eq!(error.kind(), ErrorKind::NoNode);
        assert!(error.to_string().contains("root that the connect string names"), "{error}");
    }
    create(&fixture.observer, &chroot, &[("", "")]).await;
    let cache = tree(&client, "/app").await;
    assert!(cache.snapshot().is_empty() && synced(&cache).await.is_empty());
    let before = client.request_counts();
    create(&fixture.observer, &chroot, &[("/app", "1")]).await;
    eventually("it is there", SOON, || async { text(&cache.snapshot(), "/app").is_some() }).await;
    assert_eq!((client.request_counts() - before).reads, 1);
}
