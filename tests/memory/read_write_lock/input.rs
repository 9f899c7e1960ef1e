//! Input that makes no sense is refused at once, with the value and what is allowed.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::read_write_lock::{Error, InterProcessReadWriteLock, revoke};

use super::fixture::{PATH, setup};

#[tokio::test(start_paused = true)]
async fn a_malformed_path_is_refused_when_the_lock_is_made() {
    let (_server, [client]) = setup().await;
    for path in ["", "/", "relative", "/trailing/", "/a//b", "/a/../b"] {
        let error = InterProcessReadWriteLock::new(&client, path).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn options_out_of_range_are_refused_by_name() {
    let (_server, [client]) = setup().await;
    let builder = || InterProcessReadWriteLock::builder(&client, PATH);
    for (builder, part) in [
        (builder().data(vec![0; 65_537]), "65537"),
        (builder().data("__REVOKE__"), "revoked"),
        (builder().also_count_readers([""]), "also_count_readers"),
        (builder().also_count_readers(["a/b"]), "also_count_readers"),
        (builder().also_count_writers([""]), "also_count_writers"),
        (builder().also_count_writers(["__READ__"]), "__READ__"),
        (builder().also_count_readers(["__WRIT__"]), "__WRIT__"),
        (builder().also_count_readers(["lock__"]).also_count_writers(["__lock__"]), "would be both"),
        (builder().also_count_readers(["__WRIT__0"]), "would be both"),
        (builder().also_count_writers(["__READ__-"]), "would be both"),
    ] {
        let error = builder.build().expect_err(part);
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(part) && error.to_string().contains(PATH), "{error}");
    }
    let kazoo = builder().also_count_readers(["__rlock__"]).also_count_writers(["__lock__"]);
    kazoo.build().expect("these do not overlap");
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_a_closed_client_is_refused() {
    let (_server, [client]) = setup().await;
    let lock = InterProcessReadWriteLock::new(&client, PATH).expect("a good path");
    client.close().await.expect("closed");
    assert!(matches!(lock.read().acquire().await, Err(Error::Closed { .. })));
    assert!(matches!(lock.write().try_acquire().await, Err(Error::Closed { .. })));
    assert!(matches!(InterProcessReadWriteLock::new(&client, PATH), Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn only_the_node_of_a_participant_can_be_revoked() {
    let (server, [client]) = setup().await;
    for path in ["nonsense", PATH, "/locks/both/config"] {
        let error = revoke(&client, path).await.expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path}: {error}");
    }
    assert_eq!(server.get(PATH).as_deref(), Some(&b""[..]), "a node of another kind is left alone");
}
