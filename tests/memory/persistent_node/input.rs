//! Input errors are found before anything is sent.

use zookeeper_recipes::persistent_node::{Error, NodeMode, PersistentNode};
use zookeeper_recipes::{Acl, Client, ErrorKind, Permissions};

use super::fixture::{PATH, node, setup};

#[tokio::test(start_paused = true)]
async fn a_bad_path_is_refused_at_the_start() {
    let (_server, [client]) = setup().await;
    for path in ["", "/", "a", "/a/", "/a//b", "/a/../b", "/a\0"] {
        let error = PersistentNode::builder(&client, path).start().expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
    assert_eq!(client.request_counts().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn too_much_data_is_refused_at_the_start_and_later() {
    let (server, [client]) = setup().await;
    let much = vec![0; 2 << 20];
    let error = PersistentNode::builder(&client, PATH).data(much.clone()).start().expect_err("too much");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let node = node(&client, "little");
    let error = node.set_data(much).await.expect_err("too much");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    // The data before still counts.
    node.created().await.expect("created");
    server.delete_by_hand(PATH).expect("it was there");
    server.until(|| server.stat(PATH).is_some()).await;
    assert_eq!(server.get(PATH).as_deref(), Some(&b"little"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_sequential_node_without_protection_is_refused() {
    let (_server, [client]) = setup().await;
    let mode = NodeMode::EphemeralSequential;
    let error = PersistentNode::builder(&client, PATH).mode(mode).protected(false).start().expect_err("unprotected");
    assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
    assert!(error.to_string().contains("must be protected"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_is_refused() {
    let (_server, [client]) = setup().await;
    client.close().await.expect("closed");
    let error = PersistentNode::builder(&client, PATH).start().expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[tokio::test(start_paused = true)]
async fn data_just_below_the_limit_reaches_the_servers_also_with_a_namespace_long_acls_and_a_protected_name() {
    let (server, []) = setup().await;
    let namespace = format!("/{}", "n".repeat(600));
    let limit = 64 << 10;
    let acls = (0..40).map(|number| Acl::new(Permissions::READ, "digest", format!("{number}:{}", "x".repeat(28))));
    let client = Client::builder_for_testing(&server)
        .namespace(&namespace)
        .max_request_bytes(limit)
        .acls(acls.chain([Acl::anyone_all()]).collect::<Vec<_>>())
        .connect()
        .await
        .expect("a client");
    let most = (0..limit).rev().find_map(|bytes| {
        let builder = PersistentNode::builder(&client, PATH).data(vec![0; bytes]);
        builder.protected(true).mode(NodeMode::EphemeralSequential).start().ok().map(|node| (bytes, node))
    });
    let (bytes, node) = most.expect("some fit");
    let around = limit - bytes;
    assert!((600 + 40 * 36..600 + 40 * 60 + 1024).contains(&around), "{around} bytes are kept for the rest");
    let path = node.created().await.expect("created");
    assert_eq!(server.get(&format!("{namespace}{path}")).map(|data| data.len()), Some(bytes));
    node.set_data(vec![1; bytes]).await.expect("written");
    assert_eq!(node.set_data(vec![1; bytes + 1]).await.expect_err("too much").kind(), ErrorKind::InvalidArgument);
}
