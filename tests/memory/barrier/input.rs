//! Input that makes no sense, a client that is closed, a path that is not ours.

use zookeeper_recipes::barrier::{Barrier, Error};
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{PATH, barrier, setup};
use crate::fixture::{SOON, still_pending, within};

#[tokio::test(start_paused = true)]
async fn bad_options_are_refused_when_the_barrier_is_made() {
    let (_server, client, _) = setup().await;
    for path in ["", "/", "relative", "/trailing/", "/a//b", "/a/../b"] {
        let error = Barrier::new(&client, path).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
    let error = Barrier::builder(&client, PATH).data(vec![0; 65_537]).build().expect_err("too much");
    assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("65537") && error.to_string().contains(PATH), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_error_names_the_path_once_also_in_a_namespace() {
    let (server, _, _) = setup().await;
    let client = Client::builder_for_testing(&server).namespace("app").connect().await.expect("a client");
    server.refuse(&client);
    server.disconnect(&client);
    let error = barrier(&client).set().await.expect_err("no connection");
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("barrier at {PATH}: ")), "{text}");
    assert_eq!(text.matches(PATH).count(), 1, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_ends_every_call_and_says_so() {
    let (_server, one, two) = setup().await;
    barrier(&one).set().await.expect("set");
    let waiting = barrier(&two);
    let mut waits = Box::pin(waiting.wait());
    still_pending("the barrier is set", &mut waits).await;
    two.close().await.expect("closed");
    let error = within("the wait ends", SOON, waits).await.expect_err("closed");
    assert!(matches!(error, Error::Closed { .. }) && error.is_lost(), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(matches!(waiting.wait_timeout(SOON).await, Err(Error::Closed { .. })));
    assert!(matches!(waiting.set().await, Err(Error::Closed { .. })));
    assert!(matches!(waiting.remove().await, Err(Error::Closed { .. })));
    assert!(matches!(Barrier::new(&two, PATH), Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_path_without_permission_is_an_error_and_not_a_wait() {
    let (server, client, _) = setup().await;
    let barrier = barrier(&client);
    barrier.set().await.expect("set");
    server.deny(PATH);
    server.deny("/gate");
    let error = within("an answer", SOON, barrier.wait()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    let error = within("an answer", SOON, barrier.remove()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    within("an answer", SOON, barrier.set()).await.expect("it is set, so the permission to create it is not needed");
    let fresh = Barrier::new(&client, "/gate/other").expect("a good path");
    let error = within("an answer", SOON, fresh.set()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
}
