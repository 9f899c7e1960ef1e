//! The client is closed, or may not.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::double_barrier::{DoubleBarrier, Error};

use super::fixture::{LIMIT, PATH, enter_all, leave_all, members, nodes, setup};
use crate::fixture::{SOON, T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_closed_client_ends_every_call_and_says_so() {
    let (server, clients) = setup(3).await;
    let all = members(&clients, 2);
    let mut entering = Box::pin(all[0].enter());
    still_pending("alone", &mut entering).await;
    clients[0].close().await.expect("closed");
    let error = within("the wait ends", SOON, entering).await.expect_err("closed");
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
    assert!(error.is_lost() && !error.is_retryable() && error.kind() == ErrorKind::Closed);
    assert!(matches!(all[0].enter().await, Err(Error::Closed { .. })));
    assert!(matches!(DoubleBarrier::new(&clients[0], PATH, 2), Err(Error::Closed { .. })));
    enter_all(&all[1..]).await;
    let mut leaving = Box::pin(all[1].leave());
    still_pending("the other is inside", &mut leaving).await;
    clients[1].close().await.expect("closed");
    assert!(matches!(within("the wait ends", SOON, leaving).await, Err(Error::Closed { .. })));
    clients[2].close().await.expect("closed");
    assert!(matches!(within("an answer", SOON, all[2].leave()).await, Err(Error::Closed { .. })));
    server.until(|| nodes(&server).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_keeps_the_client_and_the_last_handle_of_all_closes_it() {
    let (server, mut clients) = setup(1).await;
    let all = members(&clients, 1);
    clients.clear();
    enter_all(&all).await;
    tokio::time::sleep(T * 3).await;
    leave_all(&all).await;
    assert_eq!(server.sessions().len(), 1);
    drop(all);
    server.until(|| server.sessions().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_path_without_permission_is_an_error_and_not_a_wait() {
    let (server, clients) = setup(1).await;
    let all = members(&clients, 1);
    server.deny(PATH);
    let error = within("an answer", SOON, all[0].enter()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert!(!error.is_retryable());
    let error = within("an answer", SOON, all[0].enter_timeout(LIMIT)).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    server.allow(PATH);
    enter_all(&all).await;
    server.deny(PATH);
    let error = within("an answer", SOON, all[0].leave()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert_eq!(nodes(&server).len(), 1, "it stays for as long as it may not be deleted");
    server.allow(PATH);
    // Longer than the longest pause before the next attempt.
    tokio::time::sleep(std::time::Duration::from_secs(40)).await;
    assert!(nodes(&server).is_empty());
    enter_all(&all).await;
    leave_all(&all).await;
}
