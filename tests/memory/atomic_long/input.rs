//! Input that makes no sense.

use zookeeper_recipes::atomic_long::{DistributedAtomicLong, Error};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{PATH, number, setup};

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_at_once() {
    let (server, [client]) = setup().await;
    for path in ["", "/", "relative", "/a//b"] {
        let error = DistributedAtomicLong::new(&client, path).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
        let with_lock = DistributedAtomicLong::builder(&client, PATH).promoted_to_lock(path);
        let error = with_lock.build().expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
        assert!(error.to_string().contains(PATH), "{error}");
    }
    for lock in [PATH.to_owned(), format!("{PATH}/lock")] {
        let error = DistributedAtomicLong::builder(&client, PATH).promoted_to_lock(&lock).build().expect_err(&lock);
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert!(error.to_string().contains(&lock), "{error}");
    }
    let beside = format!("{PATH}-lock");
    DistributedAtomicLong::builder(&client, PATH).promoted_to_lock(beside).build().expect("another path");
    assert_eq!(server.paths(), [""; 0]);
    client.close().await.expect("closed");
    let error = DistributedAtomicLong::new(&client, PATH).expect_err("closed");
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_node_cannot_be_a_number() {
    let (server, [client, other]) = setup().await;
    server.create_by_hand("/counters", "", CreateMode::Persistent).expect("a new node");
    other.create(PATH, 1_i64.to_be_bytes(), CreateMode::Ephemeral).await.expect("created");
    assert_eq!(number(&client).get().await, Ok(1));
    let error = number(&client).increment().await.expect_err("it cannot have children");
    assert_eq!(error.kind(), ErrorKind::NoChildrenForEphemerals, "{error}");
}
