//! The metrics as an exporter reads them.

mod recorder;
#[path = "../support/scrape.rs"]
mod scrape;
mod table;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::leader_selector::{LeaderSelector, Leadership};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::partition_assigner::PartitionAssigner;
use zookeeper_recipes::queue::{DistributedQueue, Utf8};
use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
use zookeeper_recipes::semaphore::InterProcessSemaphore;
use zookeeper_recipes::service_discovery::{ServiceDiscovery, ServiceInstance};
use zookeeper_recipes::testing::{Data, TestingServer};
use zookeeper_recipes::throughput_balancer::{ThroughputBalancer, set_max_throughput};
use zookeeper_recipes::{Client, ConnectionState, CreateMode, ErrorKind};

use self::scrape::{Exporter, Scrape};
use crate::fixture::{SOON, T, within};

/// How long a holder keeps others waiting.
const HELD_FOR: Duration = Duration::from_secs(4);

async fn client(server: &TestingServer) -> Client {
    Client::builder_for_testing(server).session_timeout(T).connect().await.expect("a client")
}

fn about(value: f64, expected: Duration) -> bool {
    (value - expected.as_secs_f64()).abs() < 0.5
}

#[tokio::test(start_paused = true)]
async fn a_lock_tells_how_long_was_waited_and_held_and_how_it_ended() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let clients = [client(&server).await, client(&server).await];
    let [mutex, other] = clients.each_ref().map(|client| InterProcessMutex::new(client, "/lock").expect("a path"));
    let lock = ["recipe=\"mutex\"", "path=\"/lock\""];
    let held = |scrape: &Scrape| scrape.value("locks_held", &lock);
    assert_eq!(exporter.scrape().count("lock_hold_seconds_count"), 2, "what may happen is there with 0");
    let guard = mutex.acquire().await.expect("held");
    assert_eq!(held(&exporter.scrape()), 1.0);
    let waiting = tokio::spawn(async move {
        let busy = other.acquire_timeout(Duration::from_secs(1)).await.expect("an answer");
        assert!(busy.is_none());
        let dropped = tokio::time::timeout(Duration::from_secs(1), other.acquire()).await;
        assert!(dropped.is_err());
        other.acquire().await.expect("held")
    });
    tokio::time::sleep(HELD_FOR).await;
    assert_eq!(exporter.scrape().value("lock_waiters", &lock), 1.0);
    guard.release().await.expect("released");
    let guard = within("it is its turn", SOON, waiting).await.expect("no panic");
    let scrape = exporter.scrape();
    let waits = |outcome: &str, part: &str| {
        let outcome = format!("outcome={outcome:?}");
        scrape.value(&format!("lock_wait_seconds_{part}"), &[&lock[..], &[&outcome]].concat())
    };
    assert_eq!([waits("acquired", "count"), waits("busy", "count"), waits("dropped", "count")], [2.0, 1.0, 1.0]);
    assert!(about(waits("acquired", "sum"), HELD_FOR - Duration::from_secs(2)));
    assert!(
        about(waits("busy", "sum"), Duration::from_secs(1)) && about(waits("dropped", "sum"), Duration::from_secs(1))
    );
    let released = [&lock[..], &["end=\"released\""]].concat();
    assert_eq!(scrape.value("lock_hold_seconds_count", &released), 1.0);
    assert!(about(scrape.value("lock_hold_seconds_sum", &released), HELD_FOR));
    assert_eq!(held(&scrape), 1.0, "the next one");
    assert_eq!(scrape.value("lock_waiters", &lock), 0.0);
    // From the event of the deletion on: not the time that was waited.
    assert_eq!(scrape.value("takeover_seconds_count", &["path=\"/lock\""]), 1.0);
    assert!(scrape.value("takeover_seconds_sum", &["path=\"/lock\""]) < 0.5);

    server.expire_session(&clients[1]);
    guard.lost().await;
    drop(guard);
    let scrape = exporter.scrape();
    assert_eq!(scrape.value("lock_hold_seconds_count", &[&lock[..], &["end=\"lost\""]].concat()), 1.0);
    assert_eq!(held(&scrape), 0.0);
    server.stop();
    mutex.acquire_timeout(Duration::from_secs(1)).await.expect_err("no server answers");
    let failures = exporter.scrape().value("lock_wait_seconds_count", &[&lock[..], &["outcome=\"failed\""]].concat());
    assert_eq!(failures, 1.0);
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_lock_has_its_name() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let client = client(&server).await;
    let lock = InterProcessReadWriteLock::new(&client, "/pages").expect("a path");
    let read = lock.write().acquire().await.expect("it writes").downgrade().await.expect("it reads");
    let permits = InterProcessSemaphore::builder(&client, "/permits").permits(3).build().expect("built");
    let permits = permits.acquire(2).await.expect("two");
    let scrape = exporter.scrape();
    let held = |recipe: &str, path: &str| {
        scrape.value("locks_held", &[&format!("recipe={recipe:?}"), &format!("path={path:?}")])
    };
    assert_eq!(
        [held("write_lock", "/pages"), held("read_lock", "/pages"), held("semaphore", "/permits")],
        [0.0, 1.0, 2.0]
    );
    drop((read, permits));
    assert_eq!(exporter.scrape().value("locks_held", &["recipe=\"semaphore\""]), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_counts_while_it_leads() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let client = client(&server).await;
    let latch = LeaderLatch::builder(&client, "/leader").start().expect("started");
    let leadership = within("it leads", SOON, latch.wait_for_leadership()).await.expect("it leads");
    let lead = |_: Leadership| async { Ok::<(), std::io::Error>(()) };
    let selector = LeaderSelector::builder(&client, "/turns").start(lead).expect("started");
    within("it has led", SOON, selector.outcomes().next()).await.expect("an outcome");
    let scrape = exporter.scrape();
    let latch_labels = ["recipe=\"leader_latch\"", "path=\"/leader\""];
    assert_eq!(scrape.value("leaders", &latch_labels), 1.0);
    assert_eq!(scrape.value("election_participants", &latch_labels), 1.0);
    assert_eq!(scrape.value("leader_terms_total", &latch_labels), 1.0);
    let returned = ["recipe=\"leader_selector\"", "path=\"/turns\"", "end=\"returned\""];
    assert_eq!(scrape.value("leader_term_seconds_count", &returned), 1.0);
    assert_eq!(scrape.value("leaders", &["recipe=\"leader_selector\""]), 0.0);
    tokio::time::sleep(HELD_FOR).await;
    server.disconnect(&client);
    leadership.lost().await;
    within("it leads again", T, latch.wait_for_leadership()).await.expect("it leads");
    latch.close().await.expect("closed");
    let scrape = exporter.scrape();
    let ended = |end: &str, part: &str| {
        let end = format!("end={end:?}");
        scrape.value(&format!("leader_term_seconds_{part}"), &[&latch_labels[..], &[&end]].concat())
    };
    assert_eq!([ended("suspended", "count"), ended("closed", "count")], [1.0, 1.0]);
    assert!(about(ended("suspended", "sum"), HELD_FOR));
    assert_eq!(scrape.value("leaders", &latch_labels), 0.0);
    assert_eq!(scrape.value("leader_terms_total", &latch_labels), 2.0);
    // It counts no longer, though its handle is there: an alert waits for a leader as long as there are participants.
    assert_eq!(scrape.value("election_participants", &latch_labels), 0.0);
    assert_eq!(latch.id(), "");
}

#[test]
fn terms_that_end_with_their_runtime_are_told() {
    let exporter = Exporter::install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let _kept = runtime.block_on(async {
        let server = TestingServer::start();
        let client = client(&server).await;
        let latch = LeaderLatch::builder(&client, "/leader").start().expect("started");
        within("it leads", SOON, latch.wait_for_leadership()).await.expect("it leads");
        let lead = |_: Leadership| std::future::pending::<Result<(), std::io::Error>>();
        let selector = LeaderSelector::builder(&client, "/turns").start(lead).expect("started");
        within("it leads too", SOON, server.until(|| exporter.scrape().value("leaders", &[]) == 2.0)).await;
        (server, client, latch, selector)
    });
    drop(runtime);
    let scrape = exporter.scrape();
    for (recipe, end) in [("leader_latch", "closed"), ("leader_selector", "interrupted")] {
        let labels = [format!("recipe={recipe:?}"), format!("end={end:?}")];
        assert_eq!(scrape.value("leader_term_seconds_count", &[&labels[0], &labels[1]]), 1.0, "{recipe}");
    }
    assert_eq!([scrape.value("leaders", &[]), scrape.value("election_participants", &[])], [0.0; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_tells_its_length_and_what_became_of_each_delivery() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let client = client(&server).await;
    let queue = DistributedQueue::builder(&client, "/orders", Utf8).max_deliveries(2).build().expect("built");
    let producer = queue.producer();
    for order in ["a", "b", "c", "d"] {
        producer.put(order.to_owned()).await.expect("put");
    }
    let consumer = queue.consumer();
    let take = async || within("an item", SOON, consumer.take()).await.expect("an item");
    take().await.ack().await.expect("acked");
    take().await.nack().await.expect("returned");
    take().await.nack().await.expect("a dead letter");
    let in_hand = take().await;
    let path = ["path=\"/orders\""];
    tokio::time::sleep(SOON).await;
    let scrape = exporter.scrape();
    let outcome =
        |outcome: &str| scrape.value("queue_delivery_seconds_count", &[path[0], &format!("outcome={outcome:?}")]);
    assert_eq!([outcome("acked"), outcome("returned"), outcome("dead_letter")], [1.0, 1.0, 1.0]);
    assert_eq!(scrape.value("queue_puts_total", &path), 4.0);
    assert_eq!([scrape.value("queue_items", &path), scrape.value("queue_claimed_items", &path)], [2.0, 1.0]);
    let first = scrape.value("queue_delivery_attempts_bucket", &[path[0], "le=\"1\""]);
    assert_eq!([first, scrape.value("queue_delivery_attempts_count", &path)], [3.0, 4.0]);
    server.expire_session(&client);
    in_hand.lost().await;
    in_hand.ack().await.expect_err("it is lost");
    let lost = [path[0], "outcome=\"lost\""];
    assert_eq!(exporter.scrape().value("queue_delivery_seconds_count", &lost), 1.0);
    let second = queue.consumer();
    tokio::time::sleep(SOON).await;
    drop(consumer);
    tokio::time::sleep(SOON).await;
    assert_eq!(exporter.scrape().value("queue_items", &path), 2.0, "one consumer still sees it");
    drop((second, queue));
    tokio::time::sleep(SOON).await;
    assert!(exporter.scrape().value("queue_items", &path).is_nan(), "there is no consumer that sees it");
}

#[tokio::test(start_paused = true)]
async fn a_balancer_tells_its_maximum_and_what_is_applied() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let clients = [client(&server).await, client(&server).await];
    set_max_throughput(&clients[0], "/throughput", 1000).await.expect("set");
    let mut members = Vec::new();
    for client in &clients {
        members.push(ThroughputBalancer::builder(client, "/throughput").join().await.expect("it joins"));
    }
    let path = ["path=\"/throughput\""];
    let is_divided = || members.iter().map(ThroughputBalancer::throughput).sum::<u64>() == 1000;
    within("all is divided", SOON * 30, server.until(is_divided)).await;
    tokio::time::sleep(SOON * 5).await;
    let told = || {
        let scrape = exporter.scrape();
        ["maximum", "applied", "members", "share"].map(|what| scrape.value(&format!("balancer_{what}"), &path))
    };
    assert_eq!(told(), [1000.0, 1000.0, 2.0, 1000.0]);
    let decisions = || exporter.scrape().value("balancer_decisions_total", &path);
    let before = decisions();
    assert!(before >= 1.0);
    set_max_throughput(&clients[0], "/throughput", 400).await.expect("set");
    tokio::time::sleep(SOON * 5).await;
    assert_eq!(told(), [400.0, 400.0, 2.0, 400.0]);
    assert!(decisions() > before);
    for member in members {
        member.leave().await;
    }
    assert_eq!(told(), [0.0; 4], "there is no leader and no member");
}

#[tokio::test(start_paused = true)]
async fn a_cache_tells_its_nodes_and_as_of_when_they_are() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let client = client(&server).await;
    server.create_by_hand("/config", "", CreateMode::Persistent).expect("a node");
    server.create_by_hand("/config/a", "1", CreateMode::Persistent).expect("a node");
    let cache = within("it is there", SOON, Cache::tree(&client, "/config").start()).await.expect("a cache");
    let path = ["path=\"/config\""];
    let age = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        now - exporter.scrape().value("cache_confirmed_timestamp_seconds", &path)
    };
    assert_eq!(exporter.scrape().value("cache_nodes", &path), 2.0);
    assert_eq!(exporter.scrape().value("cache_resync_seconds_count", &path), 1.0);
    assert_eq!(exporter.scrape().value("cache_unreadable", &path), 0.0);
    server.fail_reads("/config/a", zookeeper_recipes::testing::Operation::GetData);
    server.set_data_by_hand("/config/a", "2").expect("set");
    cache.synced().await.expect("a snapshot");
    assert_eq!(exporter.scrape().value("cache_unreadable", &path), 1.0);
    server.heal();
    // The wall's clock does not follow the paused one, so what is seen is the age at the last confirmation.
    tokio::time::sleep(T * 3).await;
    assert!((-1.0..1.0).contains(&age()), "{}", age());
    server.disconnect(&client);
    let mut states = client.connection_states();
    while states.next().await != Some(Ok(ConnectionState::Reconnected)) {}
    tokio::time::sleep(SOON).await;
    assert_eq!(exporter.scrape().value("cache_resync_seconds_count", &path), 2.0);
    let second = within("it is there", SOON, Cache::tree(&client, "/config").start()).await.expect("a cache");
    drop(cache);
    tokio::time::sleep(SOON).await;
    assert_eq!(exporter.scrape().value("cache_nodes", &path), 2.0, "the other one is still there");
    drop(second);
    tokio::time::sleep(SOON).await;
    let scrape = exporter.scrape();
    assert!(["cache_nodes", "cache_confirmed_timestamp_seconds"].iter().all(|name| scrape.value(name, &path).is_nan()));
}

#[tokio::test(start_paused = true)]
async fn a_service_reports_its_instances_and_the_errors_of_calls() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let client = client(&server).await;
    let discovery = ServiceDiscovery::<()>::new(&client, "/services").expect("a good path");
    let instance = |id: &str| ServiceInstance::builder("api").id(id).build().expect("a good instance");
    let a = discovery.register(instance("a")).await.expect("registered");
    let _b = discovery.register(instance("b")).await.expect("registered");
    server.create_by_hand("/services/api/bad", "{", CreateMode::Persistent).expect("a node");
    let path = ["path=\"/services/api\""];
    let values = || {
        let scrape = exporter.scrape();
        ["instances", "available_instances", "down_instances", "unreadable_instances", "errors_total"]
            .map(|name| scrape.value(&format!("service_{name}"), &path))
    };
    let api = within("it is there", SOON, discovery.service("api").start()).await.expect("a service");
    assert_eq!(values(), [2.0, 2.0, 0.0, 1.0, 0.0]);
    let failing = api.instances().get("b").expect("it is there");
    for _ in 0..2 {
        api.report_error(&failing);
    }
    tokio::time::sleep(SOON).await;
    assert_eq!(values(), [2.0, 1.0, 1.0, 1.0, 2.0]);
    a.set_enabled(false).await.expect("written");
    tokio::time::sleep(SOON).await;
    assert_eq!(values(), [2.0, 0.0, 1.0, 1.0, 2.0]);
    assert_eq!(exporter.scrape().value("cache_nodes", &path), 3.0, "the age is that of the cache");
    drop(api);
    tokio::time::sleep(SOON).await;
    assert!(values()[..4].iter().all(|value| value.is_nan()), "{:?}", values());
}

#[tokio::test(start_paused = true)]
async fn a_client_tells_its_state_its_requests_and_its_lease() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let clients = [client(&server).await, client(&server).await];
    let [one, two] = &clients;
    let clients_in = |state: &str| exporter.scrape().value("clients", &[&format!("state={state:?}")]);
    assert_eq!([clients_in("connected"), clients_in("suspended")], [2.0, 0.0]);
    assert!(one.exists("/nothing").await.expect("an answer").is_none());
    one.get("/nothing").await.expect_err("there is no node");
    let scrape = exporter.scrape();
    assert_eq!(scrape.value("request_duration_seconds_count", &["operation=\"read\""]), 2.0);
    let error = ["operation=\"read\"", "error=\"no_node\""];
    assert_eq!(scrape.value("request_errors_total", &error), 1.0);

    let mutex = InterProcessMutex::new(one, "/lock").expect("a path");
    let guard = mutex.acquire().await.expect("held");
    tokio::time::sleep(T).await;
    let scrape = exporter.scrape();
    let (beats, margin) =
        (scrape.value("lease_margin_seconds_count", &[]), scrape.value("lease_margin_seconds_sum", &[]));
    assert!((5.0..=9.0).contains(&beats), "six in each session timeout: {beats}");
    assert!(margin / beats > T.as_secs_f64() / 3.0, "{}", margin / beats);
    let sent = scrape.value("request_duration_seconds_count", &["operation=\"heartbeat\""]);
    assert!(sent >= beats, "{sent} heartbeats");
    drop(guard);

    server.stop();
    within("it is in doubt", T, server.until(|| one.connection_state() == ConnectionState::Suspended)).await;
    within("so is the other", T, server.until(|| two.connection_state() == ConnectionState::Suspended)).await;
    assert_eq!([clients_in("connected"), clients_in("suspended")], [0.0, 2.0]);
    within("its session is over", T * 3, server.until(|| one.connection_state() == ConnectionState::Lost)).await;
    tokio::time::sleep(T).await;
    server.restart(Data::Kept);
    within("it is back", T * 3, server.until(|| one.connection_state() == ConnectionState::Reconnected)).await;
    let scrape = exporter.scrape();
    assert_eq!(scrape.value("sessions_ended_total", &["reason=\"given_up\""]), 2.0);
    assert_eq!(scrape.value("connection_state_changes_total", &["state=\"lost\""]), 2.0);
    one.close().await.expect("closed");
    two.close().await.expect("closed");
    assert_eq!(["connected", "suspended", "lost"].map(clients_in), [0.0; 3]);
    assert_eq!(exporter.scrape().value("sessions_ended_total", &["reason=\"closed\""]), 2.0);
}

#[tokio::test(start_paused = true)]
async fn there_are_no_more_paths_than_are_named() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let builder = Client::builder_for_testing(&server).namespace("shop").metric_paths(["/orders/{id}"]);
    let client = builder.connect().await.expect("a client");
    for number in 0..150 {
        for path in [format!("/orders/{number}"), format!("/plain-{number}")] {
            let mutex = InterProcessMutex::new(&client, &*path).expect("a path");
            mutex.acquire().await.expect("held").release().await.expect("released");
        }
    }
    let scrape = exporter.scrape();
    let count = |path: &str| scrape.value("lock_wait_seconds_count", &[&format!("path={path:?}")]);
    assert_eq!([count("/shop/orders/{id}"), count("/shop/plain-99"), count("other")], [150.0, 1.0, 50.0]);
    assert_eq!(scrape.count("lock_wait_seconds_count"), 102);
}

#[tokio::test]
async fn a_template_that_is_no_path_is_refused() {
    let refused = Client::builder("localhost:2181").metric_paths(["/orders/{id}", "orders"]).validate();
    let error = refused.expect_err("it is no path");
    assert_eq!(error.kind(), ErrorKind::InvalidPath);
    for part in ["metric paths", "\"orders\"", "must start with '/'"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}
