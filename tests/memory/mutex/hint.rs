//! The log lines of a caller that waits for a lock that its own client holds.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::mutex::{Error, InterProcessMutex, MutexGuard};

use super::fixture::{PATH, acquired, line, line_has, mutex, released, setup};
use crate::fixture::log::Log;
use crate::fixture::{SOON, T, requests, two_nodes, within};

type Acquired = Result<MutexGuard, Error>;

const HINT: &str = "this client holds itself";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_second_acquire_of_the_same_client_is_hinted_at_once_a_wait_after_ten_seconds() {
    let (server, client, _) = setup().await;
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let guard = acquired(&mutex(&client)).await;
    // Any object of the same client and path.
    let second = mutex(&client);
    server.clear_records();
    let mut waiting = Box::pin(second.acquire());
    let waits = async |waiting: &mut _, time| assert!(tokio::time::timeout(time, waiting).await.is_err(), "it is held");
    waits(&mut waiting, secs(9)).await;
    assert!(log.lines(HINT).is_empty(), "{:#?}", log.lines(HINT));
    let sent = requests(&server).len();
    waits(&mut waiting, secs(2)).await;
    waits(&mut waiting, secs(60)).await;
    let [hint] = &log.lines(HINT)[..] else { panic!("one hint: {:#?}", log.lines("")) };
    for part in ["INFO", "reenter()", &format!("path=\"{PATH}\""), "held_for="] {
        assert!(hint.contains(part), "{part}: {hint}");
    }
    assert_eq!(requests(&server).len(), sent, "it costs no request");
    released(guard).await;
    let guard = within("it is its turn", SOON, waiting).await.expect("held");
    // The next wait is another one, also a timed one, and one that is given up leaves nothing.
    let timed = within("it is held", secs(21), second.acquire_timeout(secs(20))).await;
    assert!(timed.expect("an answer").is_none());
    assert_eq!(log.lines(HINT).len(), 2, "{:#?}", log.lines(HINT));
    released(guard).await;
    assert!(line(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_another_client_or_path_or_for_a_lock_that_changes_hands_is_not_hinted_at() {
    let (_server, one, two) = setup().await;
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let guard = acquired(&mutex(&two)).await;
    let other = acquired(&InterProcessMutex::new(&one, "/locks/other").expect("a good path")).await;
    let first = mutex(&one);
    assert!(first.acquire_timeout(secs(30)).await.expect("an answer").is_none());
    released(other).await;
    released(guard).await;
    // In turn, as tasks of one process take it: none waits ten seconds for one guard.
    let guard = acquired(&first).await;
    let mut second = Box::pin(first.acquire());
    assert!(tokio::time::timeout(secs(6), &mut second).await.is_err());
    let mut third = Box::pin(first.acquire());
    assert!(tokio::time::timeout(secs(1), &mut third).await.is_err());
    released(guard).await;
    let guard = within("it is its turn", SOON, second).await.expect("held");
    assert!(tokio::time::timeout(secs(11), &mut third).await.is_err());
    released(guard).await;
    released(within("it is its turn", SOON, third).await.expect("held")).await;
    assert!(log.lines(HINT).is_empty(), "{:#?}", log.lines(HINT));
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_that_is_kept_is_hinted_at_and_one_that_is_dropped_is_not() {
    let (server, client, _) = setup().await;
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let mutex = mutex(&client);
    let guard = acquired(&mutex).await;
    server.disconnect(&client);
    within("it is lost", T, guard.lost()).await;
    assert!(!guard.is_held());
    assert!(mutex.acquire_timeout(secs(30)).await.expect("an answer").is_none(), "its node is kept");
    assert_eq!(log.lines(HINT).len(), 1, "{:#?}", log.lines(HINT));
    drop(guard);
    line_has(&server, 0).await;
    released(acquired(&mutex).await).await;
    let by_hand = two_nodes(&server, PATH, "lock-");
    assert!(mutex.acquire_timeout(secs(30)).await.expect("an answer").is_none(), "{by_hand:?}");
    assert_eq!(log.lines(HINT).len(), 1, "{:#?}", log.lines(HINT));
}

/// Waiting for a lock asks nothing of the runtime it is awaited on. The caller waits for a lock of its own client, so
/// that there is a hint to be logged.
fn waits(on: impl FnOnce(BoxFuture<'_, Acquired>) -> Acquired) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (_server, client, _) = runtime.block_on(setup());
    let mutex = mutex(&client);
    let guard = runtime.block_on(acquired(&mutex));
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(guard);
    });
    let guard = on(mutex.acquire().boxed()).expect("held");
    release.join().expect("no panic");
    drop(guard);
}

#[test]
fn a_caller_outside_of_a_runtime_may_wait() {
    waits(|acquiring| futures::executor::block_on(acquiring));
}

#[test]
fn a_caller_on_a_runtime_without_a_timer_may_wait() {
    let without_timer = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    waits(|acquiring| without_timer.block_on(acquiring));
}
