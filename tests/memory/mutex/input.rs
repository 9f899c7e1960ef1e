//! Input that makes no sense is refused at once, with the value and what is allowed.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::mutex::{Error, InterProcessMutex, revoke};

use super::fixture::{PATH, setup};

#[tokio::test(start_paused = true)]
async fn a_malformed_path_is_refused_when_the_mutex_is_made() {
    let (_server, client, _) = setup().await;
    for path in ["", "/", "relative", "/trailing/", "/a//b", "/a/../b"] {
        let error = InterProcessMutex::new(&client, path).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn options_out_of_range_are_refused_by_name() {
    let (_server, client, _) = setup().await;
    let builder = || InterProcessMutex::builder(&client, PATH);
    for (builder, part) in [
        (builder().data(vec![0; 65_537]), "65537"),
        (builder().data("__REVOKE__"), "revoked"),
        (builder().also_count([""]), "also_count"),
        (builder().also_count(["a/b"]), "also_count"),
    ] {
        let error = builder.build().expect_err(part);
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(part) && error.to_string().contains(PATH), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_node_of_a_participant_can_be_revoked() {
    let (server, client, _) = setup().await;
    for path in ["nonsense", PATH, "/locks/one/config"] {
        let error = revoke(&client, path).await.expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path}: {error}");
    }
    assert_eq!(server.get(PATH).as_deref(), Some(&b""[..]), "a node of another kind is left alone");
}
