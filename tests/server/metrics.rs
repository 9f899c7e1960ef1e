//! The metrics as an exporter reads them, of clients on a real server.

#[allow(dead_code)]
#[path = "../support/scrape.rs"]
mod scrape;

use std::time::Duration;

use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::queue::{DistributedQueue, Utf8};
use zookeeper_recipes::{ConnectionState, ErrorPolicy};

use self::scrape::{Exporter, Scrape};
use crate::fixture::{Fixture, SOON, within};
use crate::support::eventually;

const T: Duration = Duration::from_secs(4);

/// All runs on one thread, whose recorder gets the metrics.
#[tokio::test]
async fn locks_sessions_and_leases_as_they_are_on_a_server() {
    let exporter = Exporter::install();
    let fixture = Fixture::new("metrics").await;
    let path = fixture.path.as_str();
    let (proxy, one) = fixture.client_behind_proxy(T, ErrorPolicy::Session).await;
    let two = fixture.client().await;
    let [first, second] = [&one, &two].map(|client| InterProcessMutex::new(client, path).expect("a path"));
    let lock = ["recipe=\"mutex\"".to_owned(), format!("path={path:?}")];
    let value = |scrape: &Scrape, name: &str, more: &[&str]| {
        scrape.value(name, &[&lock.each_ref().map(String::as_str)[..], more].concat())
    };
    let guard = within("it is acquired", SOON, first.acquire()).await.expect("held");
    let waiting = tokio::spawn(async move { second.acquire().await.expect("held") });
    let waits = async || value(&exporter.scrape(), "lock_waiters", &[]) == 1.0;
    eventually("the other one waits", SOON, waits).await;
    let beats = async || exporter.scrape().value("lease_margin_seconds_count", &[]) >= 3.0;
    eventually("heartbeats are answered", SOON, beats).await;
    let scrape = exporter.scrape();
    let margin = scrape.value("lease_margin_seconds_sum", &[]) / scrape.value("lease_margin_seconds_count", &[]);
    assert!(margin > 0.0 && margin < 10.0, "{margin}");
    assert_eq!(scrape.value("clients", &["state=\"connected\""]), 2.0);
    assert_eq!(value(&scrape, "locks_held", &[]), 1.0);

    proxy.kill_session().await;
    within("it is lost", SOON, guard.lost()).await;
    drop(guard);
    let next = within("it is the turn of the other one", SOON, waiting).await.expect("no panic");
    let scrape = exporter.scrape();
    assert_eq!(value(&scrape, "lock_hold_seconds_count", &["end=\"lost\""]), 1.0);
    assert_eq!(value(&scrape, "lock_wait_seconds_count", &["outcome=\"acquired\""]), 2.0);
    assert_eq!([value(&scrape, "locks_held", &[]), value(&scrape, "lock_waiters", &[])], [1.0, 0.0]);
    assert_eq!(scrape.value("takeover_seconds_count", &[&lock[1]]), 1.0);
    assert!(scrape.value("takeover_seconds_sum", &[&lock[1]]) < SOON.as_secs_f64());
    next.release().await.expect("released");
    let is_back = async || one.connection_state() != ConnectionState::Lost && one.exists("/").await.is_ok();
    eventually("it has another session", SOON, is_back).await;
    let scrape = exporter.scrape();
    assert_eq!(scrape.value("sessions_ended_total", &["reason=\"expired\""]), 1.0);
    assert_eq!(scrape.value("connection_state_changes_total", &["state=\"lost\""]), 1.0);
    assert_eq!(scrape.value("clients", &["state=\"connected\""]), 2.0);
    for (what, client) in [("one", one), ("two", two)] {
        within(what, SOON, client.close()).await.expect("closed");
    }
    let scrape = exporter.scrape();
    assert_eq!(
        [scrape.value("clients", &[]), scrape.value("sessions_ended_total", &["reason=\"closed\""])],
        [0.0, 2.0]
    );
    assert!(scrape.value("request_duration_seconds_count", &["operation=\"create\""]) >= 2.0);
}

#[tokio::test]
async fn elections_queues_and_caches_as_they_are_on_a_server() {
    let exporter = Exporter::install();
    let fixture = Fixture::with_directory("metrics").await;
    let client = fixture.client().await;
    let at = |name: &str| format!("{}/{name}", fixture.path);
    let label = |name: &str| format!("path={:?}", at(name));
    let latch = LeaderLatch::builder(&client, at("leader")).start().expect("started");
    within("it leads", SOON, latch.wait_for_leadership()).await.expect("it leads");
    let queue = DistributedQueue::builder(&client, at("orders"), Utf8).prefetch(0).build().expect("built");
    for order in ["a", "b"] {
        within("it is put", SOON, queue.producer().put(order.to_owned())).await.expect("put");
    }
    let consumer = queue.consumer();
    within("an item", SOON, consumer.take()).await.expect("an item").ack().await.expect("acked");
    let cache = within("a cache", SOON, Cache::tree(&client, at("leader")).start()).await.expect("a cache");
    let value = |name: &str, recipe: &str| exporter.scrape().value(name, &[&label(recipe)]);
    assert_eq!([value("leaders", "leader"), value("election_participants", "leader")], [1.0, 1.0]);
    assert_eq!([value("queue_puts_total", "orders"), value("cache_nodes", "leader")], [2.0, 2.0]);
    let acked = [&*label("orders"), "outcome=\"acked\""];
    assert_eq!(exporter.scrape().value("queue_delivery_seconds_count", &acked), 1.0);
    eventually("one item is left", SOON, async || value("queue_items", "orders") == 1.0).await;

    within("it is closed", SOON, latch.close()).await.expect("closed");
    assert_eq!([value("leaders", "leader"), value("election_participants", "leader")], [0.0, 0.0]);
    eventually("its node is gone", SOON, async || value("cache_nodes", "leader") == 1.0).await;
    drop((cache, consumer, queue));
    let are_gone = async || value("queue_items", "orders").is_nan() && value("cache_nodes", "leader").is_nan();
    eventually("there is no number left", SOON, are_gone).await;
}
