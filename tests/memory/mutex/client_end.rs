//! The client is closed, or may not.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::mutex::{Error, InterProcessMutex};

use super::fixture::{PATH, acquired, line, mutex, released, setup};
use crate::fixture::{SOON, T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_closed_client_ends_waits_and_holds_and_says_so() {
    let (server, one, two) = setup().await;
    let (one_mutex, two_mutex) = (mutex(&one), mutex(&two));
    let guard = acquired(&one_mutex).await;
    let mut waiting = Box::pin(two_mutex.acquire());
    still_pending("the lock is held", &mut waiting).await;
    two.close().await.expect("closed");
    let error = within("the wait ends", SOON, waiting).await.expect_err("closed");
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
    one.close().await.expect("closed");
    within("it is told", SOON, guard.lost()).await;
    assert!(!guard.is_held());
    drop(guard);
    server.until(|| line(&server).is_empty()).await;
    assert!(matches!(one_mutex.acquire().await, Err(Error::Closed { .. })));
    assert!(matches!(InterProcessMutex::new(&one, PATH), Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_guard_keeps_the_client_and_the_last_handle_of_all_closes_it() {
    let (server, one, _) = setup().await;
    let guard = acquired(&mutex(&one)).await;
    drop(one);
    tokio::time::sleep(T * 3).await;
    assert!(guard.is_held(), "kept alive by the guard alone");
    drop(guard);
    server.until(|| line(&server).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_path_without_permission_is_an_error_and_not_a_wait() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    server.deny(PATH);
    let error = within("an answer", SOON, mutex.acquire()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    // The path is named once.
    assert!(error.to_string().starts_with(&format!("mutex at {PATH}: contend: no permission")), "{error}");
    let error = within("an answer", SOON, mutex.acquire_timeout(T)).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    let error = within("an answer", SOON, mutex.try_acquire()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    server.allow(PATH);
    let guard = acquired(&mutex).await;
    server.deny(PATH);
    let error = within("an answer", SOON, guard.release()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert_eq!(line(&server).len(), 1, "it stays for as long as it may not be deleted");
    client.close().await.expect("closed");
    server.until(|| line(&server).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_node_could_not_be_deleted_is_handed_on_once_that_is_allowed_again() {
    let (server, one, two) = setup().await;
    let (one_mutex, two_mutex) = (mutex(&one), mutex(&two));
    for dropped in [true, false] {
        let guard = acquired(&one_mutex).await;
        server.deny(PATH);
        if dropped {
            drop(guard);
        } else {
            guard.release().await.expect_err("no permission");
        }
        tokio::time::sleep(T * 3).await;
        server.allow(PATH);
        // Longer than the longest pause before the next attempt.
        tokio::time::sleep(std::time::Duration::from_secs(40)).await;
        released(acquired(&two_mutex).await).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mutex_that_was_idle_for_long_has_a_free_lock_at_once() {
    let (_server, client, _) = setup().await;
    let mutex = mutex(&client);
    tokio::time::sleep(T * 10).await;
    let begun = tokio::time::Instant::now();
    released(acquired(&mutex).await).await;
    assert!(begun.elapsed() < std::time::Duration::from_millis(100), "{:?}", begun.elapsed());
}
