//! Servers that go and come back while items are put and taken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use tokio::task::JoinHandle;
use zookeeper_recipes::queue::{DistributedQueue, Utf8};
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{SOON, queue};
use crate::fixture::{builder, connect};
use crate::support::{Ensemble, Observer, ZooKeeper, eventually, unique_path, within};

/// This many items are acked before a server stops, and between one stop and the next.
const A_FEW: usize = 300;
/// At most this many are in the queue: producers must not be faster than consumers.
const AT_MOST: usize = 100;
const PRODUCERS: usize = 2;
const CONSUMERS: usize = 2;

/// Producers and consumers at work, and what became of each item.
struct Work {
    producing: Vec<JoinHandle<()>>,
    consuming: Vec<JoinHandle<()>>,
    stop: Arc<AtomicUsize>,
    ledger: Arc<Ledger>,
}

#[derive(Default)]
struct Ledger {
    /// Confirmed, or in doubt.
    put: Mutex<BTreeMap<String, bool>>,
    /// How many acks were confirmed.
    acked: Mutex<BTreeMap<String, usize>>,
    /// Acks that have no outcome yet.
    acking: AtomicUsize,
    /// Acks whose outcome is unknown.
    unknown: AtomicUsize,
}

impl Work {
    async fn begin(connect_string: &str, path: &str, session: Duration) -> Work {
        let clients = join_all((0..PRODUCERS + CONSUMERS).map(|_| connect(builder(connect_string, session)))).await;
        let (ledger, stop) = (Arc::<Ledger>::default(), Arc::<AtomicUsize>::default());
        let (producers, consumers) = clients.split_at(PRODUCERS);
        let produce = |(number, client): (usize, &Client)| {
            tokio::spawn(produce(number, client.clone(), path.to_owned(), Arc::clone(&stop), Arc::clone(&ledger)))
        };
        let consume = |client: &Client| tokio::spawn(consume(client.clone(), path.to_owned(), Arc::clone(&ledger)));
        let producing = producers.iter().enumerate().map(produce).collect();
        let consuming = consumers.iter().map(consume).collect();
        Work { producing, consuming, stop, ledger }
    }

    /// So many more were acked.
    async fn goes_on(&self) {
        let wanted = self.acked() + A_FEW;
        eventually("items are put, taken and acked", SOON * 3, || async { self.acked() >= wanted }).await;
    }

    fn acked(&self) -> usize {
        self.ledger.acked.lock().expect("no panic").len()
    }

    /// Waits until everything that was put is out of the queue; it came once.
    async fn end(self, observer: &Observer, path: &str) {
        self.stop.store(1, Ordering::Relaxed);
        for producing in self.producing {
            within("all is put", SOON * 3, producing).await.expect("no panic");
        }
        eventually("all is taken", SOON * 3, || async { observer.children(path).await.is_empty() }).await;
        eventually("all claims are gone", SOON, || async {
            observer.children(&format!("{path}-claims")).await.is_empty()
        })
        .await;
        // The last items are out of the queue before their consumers have the answers.
        eventually("all acks are answered", SOON, async || self.ledger.acking.load(Ordering::SeqCst) == 0).await;
        for consuming in self.consuming {
            consuming.abort();
        }
        let (put, acked) = (self.ledger.put.lock().expect("no panic"), self.ledger.acked.lock().expect("no panic"));
        assert!(acked.values().all(|times| *times == 1), "an ack that was confirmed is one");
        let missing: Vec<_> = put.iter().filter(|(item, sure)| **sure && !acked.contains_key(*item)).collect();
        let unknown = self.ledger.unknown.load(Ordering::Relaxed);
        assert!(missing.len() <= unknown, "{missing:?} are lost, and only {unknown} acks have an unknown outcome");
        assert!(acked.keys().all(|item| put.contains_key(item)));
    }
}

async fn produce(number: usize, client: Client, path: String, stop: Arc<AtomicUsize>, ledger: Arc<Ledger>) {
    let bounded = DistributedQueue::builder(&client, &path, Utf8).max_items(AT_MOST).build().expect("a queue");
    let producer = bounded.producer();
    for next in 0.. {
        if stop.load(Ordering::Relaxed) > 0 {
            break;
        }
        let items: Vec<String> = (0..10).map(|item| format!("{number}:{next}:{item}")).collect();
        let outcomes = join_all(items.iter().map(|item| producer.put(item.clone()))).await;
        for (item, outcome) in items.into_iter().zip(outcomes) {
            let sure = match outcome {
                Ok(()) => true,
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => false,
                Err(error) => panic!("{item}: {error}"),
            };
            ledger.put.lock().expect("no panic").insert(item, sure);
        }
    }
}

async fn consume(client: Client, path: String, ledger: Arc<Ledger>) {
    let consumer = queue(&client, &path).consumer();
    loop {
        let delivery = consumer.take().await.expect("an item, sooner or later");
        let item = delivery.item().clone();
        ledger.acking.fetch_add(1, Ordering::SeqCst);
        match delivery.ack().await {
            Ok(_) => *ledger.acked.lock().expect("no panic").entry(item).or_default() += 1,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                ledger.unknown.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}"),
        }
        ledger.acking.fetch_sub(1, Ordering::SeqCst);
    }
}

/// testLongNetworkPartition: once for less than a session, once for longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_restarted_or_away_for_longer_than_a_session_loses_and_doubles_nothing() {
    let (server, path, session) = (ZooKeeper::start().await, unique_path("restart"), Duration::from_secs(6));
    let work = Work::begin(&server.connect_string(), &path, session).await;
    work.goes_on().await;
    server.restart().await;
    work.goes_on().await;
    server.stop().await;
    // As long as that is all that counts here: the clients give their sessions up.
    tokio::time::sleep(session * 2).await;
    server.start_again().await;
    work.goes_on().await;
    let observer = Observer::connect(&server.connect_string()).await;
    work.end(&observer, &path).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_and_one_that_is_frozen_lose_and_double_nothing() {
    let (ensemble, path) = (Ensemble::start().await, unique_path("cluster"));
    let work = Work::begin(&ensemble.connect_string(), &path, Duration::from_secs(10)).await;
    work.goes_on().await;
    let leader = ensemble.leader().await;
    ensemble.kill(leader).await;
    ensemble.wait_for_quorum().await;
    work.goes_on().await;
    ensemble.start_again(leader).await;
    let leader = ensemble.wait_for_quorum().await;
    ensemble.pause(leader).await;
    work.goes_on().await;
    ensemble.unpause(leader).await;
    ensemble.wait_for_quorum().await;
    let observer = Observer::connect(&ensemble.connect_string()).await;
    work.end(&observer, &path).await;
}
