//! The spans around the code of users, which give its log lines the fields of the recipe.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::leader_selector::{LeaderSelector, Leadership};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::queue::{ClaimHandle, DistributedQueue, Utf8};
use zookeeper_recipes::testing::TestingServer;

use crate::fixture::T;
use crate::fixture::log::Log;
use crate::waiting::within;

/// The only line with the message.
fn line(log: &Log, message: &str) -> String {
    let lines = log.lines(message);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    lines[0].clone()
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_listener_has_the_fields_of_its_term() {
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let leads = Arc::new(Notify::new());
    let lead = {
        let leads = Arc::clone(&leads);
        move |leadership: Leadership| {
            let leads = Arc::clone(&leads);
            async move {
                tracing::info!("the nightly job starts");
                leads.notify_one();
                leadership.lost().await;
            }
        }
    };
    let selector = LeaderSelector::builder(&client, "/job").id("one").start(lead).expect("started");
    within("it leads", T, leads.notified()).await;
    let line = line(&log, "the nightly job starts");
    for field in ["term{", "path=\"/job\"", "id=\"one\"", "token="] {
        assert!(line.contains(field), "{field}: {line}");
    }
    drop(selector);
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_handler_has_the_fields_of_its_delivery() {
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let queue = DistributedQueue::builder(&client, "/orders", Utf8).build().expect("built");
    queue.producer().put("seven".to_owned()).await.expect("put");
    let consumer = queue.consumer();
    let handled = Arc::new(Notify::new());
    let ship = {
        let handled = Arc::clone(&handled);
        move |order: String, _: ClaimHandle| {
            let handled = Arc::clone(&handled);
            async move {
                tracing::info!(order, "shipping");
                handled.notify_one();
                Ok::<(), std::io::Error>(())
            }
        }
    };
    let consuming = tokio::spawn(async move { consumer.consume(1, ship).await });
    within("it is handled", T, handled.notified()).await;
    let line = line(&log, "shipping");
    for field in ["delivery{", "path=\"/orders\"", "item=", "attempt=1"] {
        assert!(line.contains(field), "{field}: {line}");
    }
    consuming.abort();
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_waiting_caller_has_the_path_of_the_lock() {
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let mutex = InterProcessMutex::builder(&client, "/locks/one").build().expect("built");
    let guard = mutex.acquire().await.expect("held");
    // The same client waits for its own lock, which is logged after ten seconds.
    assert!(mutex.acquire_timeout(Duration::from_secs(20)).await.expect("an answer").is_none());
    let line = line(&log, "waiting for a lock that this client holds itself");
    assert!(line.contains("acquire{path=\"/locks/one\"}"), "{line}");
    guard.release().await.expect("released");
}
