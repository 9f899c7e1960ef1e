//! Recorders that do what they should not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use zookeeper_recipes::testing::TestingServer;

use super::*;

/// Does something whenever a metric is registered, and when a gauge is set.
struct Doing<F>(Arc<F>);

impl<F: Fn() + Send + Sync + 'static> Recorder for Doing<F> {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        self.0();
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        self.0();
        Gauge::from_arc(Arc::new(DoingGauge(Arc::clone(&self.0))))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        self.0();
        Histogram::noop()
    }
}

struct DoingGauge<F>(Arc<F>);

impl<F: Fn() + Send + Sync + 'static> GaugeFn for DoingGauge<F> {
    fn increment(&self, _: f64) {
        self.0();
    }

    fn decrement(&self, _: f64) {
        self.0();
    }

    fn set(&self, _: f64) {
        self.0();
    }
}

/// Locks, elections, a balancer, a cache, a queue, and a lost session.
async fn play(server: &TestingServer, client: &Client, member: &Mutex<Option<Arc<ThroughputBalancer>>>) {
    set_max_throughput(client, "/throughput", 1000).await.expect("set");
    let joined = Arc::new(ThroughputBalancer::builder(client, "/throughput").join().await.expect("it joins"));
    *member.lock().expect("no panic") = Some(Arc::clone(&joined));
    within("it has its share", SOON * 30, server.until(|| joined.throughput() == 1000)).await;
    let cache = within("it is there", SOON, Cache::tree(client, "/throughput").start()).await.expect("a cache");
    let queue = DistributedQueue::builder(client, "/orders", Utf8).build().expect("built");
    queue.producer().put("a".to_owned()).await.expect("put");
    within("an item", SOON, queue.consumer().take()).await.expect("an item").ack().await.expect("acked");
    drop((cache, queue));
    let mutex = InterProcessMutex::new(client, "/lock").expect("a path");
    let guard = mutex.acquire().await.expect("held");
    tokio::time::sleep(T).await;
    assert!(guard.is_held(), "{:?}", client.last_error());
    server.expire_session(client);
    guard.lost().await;
    drop(guard);
    drop(within("another session", T * 3, mutex.acquire()).await.expect("held"));
    within("its share again", SOON * 30, server.until(|| joined.throughput() == 1000)).await;
}

#[test]
fn a_recorder_may_ask_the_client_and_its_recipes() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (known, member) = (Arc::new(Mutex::new(None::<Client>)), Arc::new(Mutex::new(None)));
        let ask = {
            let (known, member) = (Arc::clone(&known), Arc::clone(&member));
            move || {
                // Those of the moment: the recorder itself holds no lock.
                let client = known.lock().expect("no panic").clone();
                let member: Option<Arc<ThroughputBalancer>> = member.lock().expect("no panic").clone();
                client.map(|client: Client| (client.connection_state(), client.last_error(), client.session_id()));
                member.map(|member| (member.throughput(), member.share().get().is_current()));
            }
        };
        let recorder = Box::leak(Box::new(Doing(Arc::new(ask))));
        let _recording = metrics::set_default_local_recorder(recorder);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let server = TestingServer::start();
            let client = client(&server).await;
            *known.lock().expect("no panic") = Some(client.clone());
            play(&server, &client, &member).await;
        });
        done.send(()).expect("it is waited for");
    });
    is_done.recv_timeout(Duration::from_secs(20)).expect("it waits for itself, or has panicked");
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_ends_nothing() {
    let panics = Arc::new(AtomicBool::new(false));
    let act = {
        let panics = Arc::clone(&panics);
        move || assert!(!panics.load(Ordering::SeqCst), "the recorder of this test panics")
    };
    let recorder = Box::leak(Box::new(Doing(Arc::new(act))));
    let _recording = metrics::set_default_local_recorder(recorder);
    let server = TestingServer::start();
    let client = client(&server).await;
    panics.store(true, Ordering::SeqCst);
    play(&server, &client, &Mutex::default()).await;
    client.close().await.expect("closed");
    assert!(server.panics().is_empty(), "{:?}", server.panics());
}
