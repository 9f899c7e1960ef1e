//! Input that makes no sense is refused at once, with the value and what is allowed.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::multi_lock::{Error, InterProcessMultiLock};

use super::fixture::{PATHS, mutex, setup};

#[tokio::test(start_paused = true)]
async fn locks_that_cannot_be_one_are_refused() {
    let (_server, [one, two]) = setup().await;
    let none: [&str; 0] = [];
    let cases = [
        (InterProcessMultiLock::new(&one, none), "at least one"),
        (InterProcessMultiLock::new(&one, [PATHS[0], PATHS[1], PATHS[0]]), "/locks/a is given twice"),
        (InterProcessMultiLock::of([mutex(&one, PATHS[0]), mutex(&two, PATHS[1])]), "different clients"),
    ];
    for (refused, part) in cases {
        let error = refused.expect_err(part);
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_malformed_path_and_a_closed_client_are_refused() {
    let (_server, [client]) = setup().await;
    for path in ["", "/", "relative", "/trailing/", "/a//b"] {
        let error = InterProcessMultiLock::new(&client, [PATHS[0], path]).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
    let locks = InterProcessMultiLock::new(&client, PATHS).expect("good paths");
    client.close().await.expect("closed");
    assert!(matches!(locks.acquire().await, Err(Error::Closed { .. })));
    assert!(matches!(InterProcessMultiLock::new(&client, PATHS), Err(Error::Closed { .. })));
}
