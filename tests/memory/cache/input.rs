//! Input that makes no sense, and a client that is closed.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::cache::{Cache, Error};

use super::fixture::{ROOT, setup};

#[tokio::test(start_paused = true)]
async fn bad_options_are_refused_at_the_start() {
    let (_server, client) = setup().await;
    for path in ["", "relative", "/trailing/", "/a//b", "/a/../b"] {
        let error = Cache::tree(&client, path).start().await.expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
    for capacity in [0, 65_537] {
        let error = Cache::tree(&client, ROOT).capacity(capacity).start().await.expect_err("out of range");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&capacity.to_string()) && error.to_string().contains("65536"), "{error}");
    }
    let error = Cache::children(&client, ROOT).depth(0).start().await.expect_err("nothing would be kept");
    assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_starts_none() {
    let (_server, client) = setup().await;
    client.close().await.expect("closed");
    let error = Cache::tree(&client, ROOT).start().await.expect_err("closed");
    assert!(matches!(error, Error::Closed { .. }) && error.is_lost(), "{error:?}");
    assert!(error.to_string().contains(ROOT), "{error}");
}
