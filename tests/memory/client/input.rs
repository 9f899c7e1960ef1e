//! Bad input is an error at the call, which names the value and what is allowed.

use std::time::Duration;

use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

#[tokio::test(start_paused = true)]
async fn malformed_paths_are_refused_before_anything_is_sent() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let before = client.request_counts();
    for path in ["", "relative", "/a/", "//a", "/a/../b", "/a\u{0}"] {
        let errors = [
            client.get(path).await.unwrap_err(),
            client.acl(path).await.unwrap_err(),
            client.set(path, b"", None).await.unwrap_err(),
            client.create(path, b"", CreateMode::Persistent).await.unwrap_err(),
            client.delete(path, None).await.unwrap_err(),
            client.create_containers(path).await.unwrap_err(),
            client.multi_get(["/a", path]).await.unwrap_err(),
            client.transaction().create(path, b"", CreateMode::Persistent).create_parents().commit().await.unwrap_err(),
            client.transaction().delete(path, None).commit().await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
            assert!(error.to_string().contains(&format!("{path:?}")), "the value is named: {error}");
        }
    }
    assert_eq!((client.request_counts() - before).total(), 0);
}

#[tokio::test(start_paused = true)]
async fn bad_options_are_refused_by_name() {
    let zero = Duration::ZERO;
    let cases = [
        (Client::builder(""), "connect string"),
        (Client::builder("host:0"), "host:0"),
        (Client::builder("host:2181/../x"), "host:2181/../x"),
        (Client::builder("host").session_timeout(zero), "session timeout of 0ns"),
        (Client::builder("host").connection_timeout(zero), "connection timeout of 0ns"),
        (Client::builder("host").tick_time(zero), "tick time of 0ns"),
        (Client::builder("host").min_session_timeout(zero), "minimum session timeout of 0ns"),
        (Client::builder("host").silence_timeout(zero), "silence timeout of 0ns"),
        (Client::builder("host").silence_timeout(Duration::from_secs(61)), "silence timeout of 61s"),
        (Client::builder("host").max_request_bytes(1_000), "max request bytes of 1000"),
        (Client::builder("host").max_response_bytes(0), "max response bytes of 0"),
        (Client::builder("host").acls([]), "acls"),
        (Client::builder("host").namespace("/a//b"), "/a//b"),
    ];
    for (builder, named) in cases {
        let error = builder.clone().connect().await.unwrap_err();
        assert!(error.to_string().contains(named), "{error} should name {named}");
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::InvalidPath), "{error}");
        assert_eq!(builder.validate().unwrap_err(), error);
    }
}

#[tokio::test(start_paused = true)]
async fn the_containers_of_the_root_exist_always() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    client.create_containers("/").await.expect("the root exists");
    client.create_containers("/a/b").await.expect("created");
    client.create_containers("/a").await.expect("it exists");
}
