//! Input errors are found before anything is sent.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::persistent_node::{Error, NodeMode, PersistentNode};

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
