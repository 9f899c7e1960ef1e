//! How a server starts, and where it cannot.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::testing::{Target, TestingServer};

use super::fixture::{T, connect, create, timed};

/// The panic message of the call.
fn panics_with<R>(call: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).err().expect("a panic");
    *panic.downcast::<String>().expect("a text")
}

/// Where the last panic of this thread happened, as the hook sees it.
fn place_of<R>(call: impl FnOnce() -> R) -> String {
    thread_local!(static PLACE: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) });
    let (before, thread) = (Arc::new(std::panic::take_hook()), std::thread::current().id());
    let others = Arc::clone(&before);
    std::panic::set_hook(Box::new(move |info| {
        // Tests on other threads panic meanwhile too.
        if std::thread::current().id() != thread {
            return others(info);
        }
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        PLACE.set(place);
    }));
    let panicked = catch_unwind(AssertUnwindSafe(call)).is_err();
    std::panic::set_hook(Box::new(move |info| before(info)));
    assert!(panicked);
    PLACE.take()
}

#[test]
fn outside_a_runtime_or_without_timers_it_says_what_to_do() {
    let message = panics_with(TestingServer::start);
    assert!(message.contains("no tokio runtime") && message.contains("#[tokio::test]"), "{message}");
    let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let message = panics_with(|| bare.block_on(async { TestingServer::builder().start() }));
    assert!(message.contains("no timers") && message.contains("enable_time()"), "{message}");
}

#[test]
fn a_panic_of_a_bad_option_points_to_the_test_and_not_into_the_library() {
    let places = [
        place_of(|| drop(TestingServer::start())),
        place_of(|| drop(TestingServer::builder().start())),
        place_of(|| TestingServer::builder().tick_time(Duration::ZERO)),
        place_of(|| TestingServer::builder().servers(0)),
    ];
    for place in places {
        assert!(place.starts_with(file!()), "{place}");
    }
}

#[test]
fn a_tick_out_of_range_is_refused_with_the_value_and_the_range() {
    for tick in [Duration::ZERO, Duration::from_nanos(999_999), Duration::from_secs(107_375), Duration::MAX] {
        let message = panics_with(|| TestingServer::builder().tick_time(tick));
        let expected = format!("a tick time of {tick:?}: must be at least 1ms and at most 107374.182s");
        assert_eq!(message, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_tick_there_is_works() {
    let server = TestingServer::builder().tick_time(Duration::from_millis(107_374_182)).start();
    let client = connect(&server).await;
    assert_eq!(client.session_timeout(), Some(Duration::from_millis(2 * 107_374_182)));
    create(&client, "/node").await;
}

#[tokio::test(start_paused = true)]
async fn times_without_end_are_long_and_no_more() {
    let ever = [Duration::MAX, Duration::from_millis(u64::MAX), Duration::from_millis(u64::MAX / 2)];
    for ever in ever {
        let server = TestingServer::builder().servers(3).container_check_interval(ever).start();
        let client = connect(&server).await;
        create(&client, "/node").await;
        // A message that is delayed for ever may be released, and then the call continues.
        server.delay(&client, ever);
        server.delay(Target::ALL, ever);
        let read = tokio::time::timeout(T, client.exists("/node")).await;
        assert!(read.is_err(), "it is on its way");
        server.heal();
        server.cut_off(0, ever);
        server.heal();
        let latecomer = connect(&server).await;
        latecomer.create("/other", "", CreateMode::Persistent).await.expect("a new node");
        assert_eq!(server.panics(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_latency_or_lag_without_end_is_a_server_that_never_answers() {
    let ever = Duration::MAX..=Duration::MAX;
    for server in [
        TestingServer::builder().latency(ever.clone()),
        TestingServer::builder().servers(3).lag(ever.clone()),
        TestingServer::builder().servers(3).lag(Duration::ZERO..=Duration::MAX).latency(Duration::ZERO..=Duration::MAX),
    ] {
        let server = server.start();
        let (took, client) = timed(server.client()).await;
        client.expect_err("there is no reply");
        assert!(took < T * 3, "{took:?}");
        assert_eq!(server.panics(), [""; 0]);
    }
}
