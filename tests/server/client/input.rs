//! Input that a server would refuse, or answer by cutting the connection, is an error that names the value and the
//! limit.

use std::time::{Duration, Instant};

use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{SOON, builder};
use crate::support::{ZooKeeper, eventually, unique_path, within};

#[tokio::test]
async fn an_unreachable_ensemble_is_named_when_the_connection_timeout_is_over() {
    let began = Instant::now();
    let within = Duration::from_millis(700);
    let error = builder("127.0.0.1:1,127.0.0.1:2").connection_timeout(within).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
    for named in ["127.0.0.1:1", "127.0.0.1:2", "700ms"] {
        assert!(error.to_string().contains(named), "{error} should name {named}");
    }
    assert!(began.elapsed() >= within && began.elapsed() < SOON);
}

#[tokio::test]
async fn a_root_that_does_not_exist_is_an_error_and_no_endless_loop() {
    let server = ZooKeeper::shared().await;
    let client = builder(&format!("{}{}", server.connect_string(), unique_path("missing"))).connect().await.unwrap();
    let error = client.create_containers("/a/b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoNode);
    assert!(error.to_string().contains("root that the connect string names"), "{error}");
    let errors = [
        client.get("/a").await.unwrap_err(),
        client.children("/").await.unwrap_err(),
        client.acl("/a").await.unwrap_err(),
        client.set("/a", b"", None).await.unwrap_err(),
        client.create("/a", b"", CreateMode::Persistent).await.unwrap_err(),
        client.delete("/a", None).await.unwrap_err(),
        client.transaction().delete("/a", None).commit().await.unwrap_err(),
        zookeeper_recipes::inspect::lines(&client, "/a").await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::NoNode);
        assert!(error.to_string().contains("root that the connect string names"), "{error}");
    }
    let latch = LeaderLatch::builder(&client, "/a").start().unwrap();
    let error = within("an error", SOON, latch.wait_for_leadership()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoNode, "{error}");
}

#[tokio::test]
async fn a_root_that_exists_is_looked_for_once_and_without_one_nothing_is() {
    let server = ZooKeeper::shared().await;
    let root = unique_path("root");
    let plain = builder(&server.connect_string()).connect().await.unwrap();
    plain.create(&root, b"", CreateMode::Persistent).await.unwrap();
    let below = builder(&format!("{}{root}", server.connect_string())).connect().await.unwrap();
    for (client, looks) in [(&plain, 0), (&below, 1)] {
        let reads = || client.request_counts().reads;
        eventually("it has looked, when it has connected", SOON, || async { reads() == looks }).await;
        for _ in 0..3 {
            let error = client.get("/none").await.unwrap_err();
            assert_eq!(error.to_string(), "get /none: no such node");
        }
        assert_eq!(reads(), looks + 3);
    }
}

#[tokio::test]
async fn what_would_make_a_server_cut_the_connection_is_not_sent() {
    let server = ZooKeeper::shared().await;
    let client = builder(&server.connect_string()).connect().await.unwrap();
    let path = unique_path("large");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let before = client.request_counts();
    let huge = vec![0; 1_100_000];
    let errors = [
        client.create(&path, &huge, CreateMode::Persistent).await.unwrap_err(),
        client.set(&path, &huge, None).await.unwrap_err(),
        client.transaction().set_data(&path, huge.clone(), None).commit().await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("1048575"), "{error}");
    }
    assert_eq!((client.request_counts() - before).total(), 0);
    client.set(&path, vec![0; 1_040_000], None).await.expect("data within the limit is sent");
}

#[tokio::test]
async fn version_minus_one_is_refused_as_it_would_check_nothing_and_other_negative_ones_are_versions() {
    let server = ZooKeeper::shared().await;
    let client = builder(&server.connect_string()).connect().await.unwrap();
    let path = unique_path("version");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let errors = [
        client.set(&path, b"x", Some(-1)).await.unwrap_err(),
        client.delete(&path, Some(-1)).await.unwrap_err(),
        client.transaction().check_version(&path, -1).commit().await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("version -1"), "{error}");
    }
    assert_eq!(client.get(&path).await.unwrap().1.version, 0);
    // A node that was written more than 2^31 times has such a version.
    for error in [
        client.set(&path, b"x", Some(-2)).await.unwrap_err(),
        client.delete(&path, Some(i32::MIN)).await.unwrap_err(),
        client.transaction().check_version(&path, -7).commit().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::BadVersion, "{error}");
    }
}

#[tokio::test]
async fn wrong_credentials_are_told_from_a_missing_permission() {
    let server = ZooKeeper::shared().await;
    let path = unique_path("private");
    let owner = builder(&server.connect_string())
        .auth("digest", "owner:secret")
        .acls([zookeeper_recipes::Acl::creator_all()])
        .connect()
        .await
        .unwrap();
    owner.create(&path, b"mine", CreateMode::Persistent).await.unwrap();
    assert_eq!(owner.get(&path).await.unwrap().0, b"mine");
    let stranger = builder(&server.connect_string()).connect().await.unwrap();
    let error = stranger.get(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoAuth);
    assert!(!error.is_retryable() && error.to_string().contains(&path), "{error}");
    owner.delete(&path, None).await.unwrap();
}
