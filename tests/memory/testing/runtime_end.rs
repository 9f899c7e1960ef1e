//! The runtime of a server and its clients ends before those who use them, on another runtime.

use std::pin::Pin;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::runtime::Runtime;
use zookeeper_recipes::barrier::{self, Barrier};
use zookeeper_recipes::double_barrier::{self, DoubleBarrier};
use zookeeper_recipes::leader_latch::{self, LatchStatus, LeaderLatch};
use zookeeper_recipes::leader_selector::{LeaderSelector, SelectorStatus};
use zookeeper_recipes::mutex::{self, InterProcessMutex};
use zookeeper_recipes::queue::{self, ClaimHandle, DistributedQueue, Utf8};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ConnectionState, CreateMode, ErrorKind};

use super::fixture::{connect, create};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

/// The result of the call, polled on a running runtime; it must be ready at once.
fn comes_to<T>(what: &str, elsewhere: &Runtime, call: impl Future<Output = T>) -> T {
    let soon = elsewhere.block_on(async { tokio::time::timeout(Duration::from_secs(1), call).await });
    soon.unwrap_or_else(|_| panic!("{what} waits for what will never be"))
}

/// A server, a client that holds a lock on it, and a client that wants the lock; their runtime is gone.
struct Orphans {
    server: TestingServer,
    holder: Client,
    client: Client,
    guard: mutex::MutexGuard,
    mutex: InterProcessMutex,
    latch: LeaderLatch,
    selector: LeaderSelector,
}

impl Orphans {
    fn of(home: &Runtime) -> Orphans {
        home.block_on(async {
            let server = TestingServer::start();
            let (holder, client) = (connect(&server).await, connect(&server).await);
            create(&client, "/node").await;
            let guard = InterProcessMutex::new(&holder, "/lock").unwrap().acquire().await.expect("it is free");
            let mutex = InterProcessMutex::new(&client, "/lock").unwrap();
            let first = LeaderLatch::builder(&holder, "/latch").start().unwrap();
            first.wait_for_leadership().await.expect("it leads");
            let latch = LeaderLatch::builder(&client, "/latch").start().unwrap();
            let lead = |_| std::future::pending::<()>();
            let selector = LeaderSelector::builder(&client, "/selector").start(lead).unwrap();
            selector.state().wait_for(|state| state.is_leader()).await.expect("it leads");
            // It stays as long as its own process runs.
            drop(server.spawn(&holder, async move {
                let _kept = first;
                std::future::pending::<()>().await;
            }));
            Orphans { server, holder, client, guard, mutex, latch, selector }
        })
    }
}

#[test]
fn calls_that_wait_for_it_end_with_an_error_that_tells_why() {
    let (home, elsewhere) = (runtime(), runtime());
    let Orphans { server, client, guard, mutex, latch, selector, .. } = Orphans::of(&home);
    let mut states = client.connection_states();
    let (mut outcomes, mut selector_state) = (selector.outcomes(), selector.state());
    let mut acquire = Box::pin(mutex.acquire());
    let mut wait = Box::pin(latch.wait_for_leadership());
    let mut lost = Box::pin(guard.lost());
    let mut read = Box::pin(client.get("/node"));
    let mut write = Box::pin(client.set("/node", "late", None));
    elsewhere.block_on(async {
        assert!(states.next().await.is_some());
        assert!(Pin::new(&mut acquire).now_or_never().is_none());
        assert!(Pin::new(&mut wait).now_or_never().is_none());
        assert!(Pin::new(&mut lost).now_or_never().is_none());
        assert!(Pin::new(&mut read).now_or_never().is_none());
        assert!(Pin::new(&mut write).now_or_never().is_none());
    });
    drop(home);
    let error = comes_to("acquire", &elsewhere, acquire).expect_err("no task hands it over");
    assert!(matches!(error, mutex::Error::Closed { .. }), "{error:?}");
    let error = comes_to("wait_for_leadership", &elsewhere, wait).expect_err("no task hands it over");
    assert!(matches!(error, leader_latch::Error::Closed { .. }), "{error:?}");
    comes_to("lost", &elsewhere, lost);
    assert!(!guard.is_held() && !selector.has_leadership());
    let error = comes_to("get", &elsewhere, read).expect_err("there is no reply");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.to_string().contains("runtime") && error.to_string().contains("has ended"), "{error}");
    let error = comes_to("set", &elsewhere, write).expect_err("there is no reply");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "it was handed over: {error}");
    let told: Vec<_> = comes_to("connection_states", &elsewhere, states.collect());
    assert_eq!(told, [Ok(ConnectionState::Lost)]);
    assert!(comes_to("outcomes", &elsewhere, outcomes.next()).is_none());
    comes_to("state", &elsewhere, selector_state.wait_for(|state| state.status() == SelectorStatus::Closed)).unwrap();
    assert_eq!(latch.state().get().status(), LatchStatus::Closed);
    drop(server);
}

#[test]
fn calls_that_come_later_fail_at_once_also_after_close() {
    let (home, elsewhere) = (runtime(), runtime());
    let Orphans { server, holder, client, guard, mutex, latch, selector } = Orphans::of(&home);
    drop(home);
    let fence = guard.fence();
    for closed in [false, true] {
        assert!(client.is_closed());
        assert_eq!(client.connection_state(), ConnectionState::Lost);
        assert_eq!((client.session_id(), client.session_timeout()), (None, None));
        let why = client.last_error().expect("the error is reported").to_string();
        assert!(why.contains("runtime"), "{why}");
        let plain = [
            comes_to("get", &elsewhere, client.get("/node")).map(drop),
            comes_to("set", &elsewhere, client.set("/node", "", None)).map(drop),
            comes_to("create", &elsewhere, client.create("/new", "", CreateMode::Ephemeral)).map(drop),
            comes_to("create_containers", &elsewhere, client.create_containers("/new")),
            comes_to("commit", &elsewhere, client.transaction().set_data("/node", "", None).commit()).map(drop),
        ];
        for outcome in plain {
            let error = outcome.expect_err("there is no reply");
            assert!(error.kind() == ErrorKind::Closed && !error.is_retryable(), "closed {closed}: {error:?}");
        }
        let error = comes_to("acquire_timeout", &elsewhere, mutex.acquire_timeout(Duration::from_secs(9)));
        assert!(matches!(error, Err(mutex::Error::Closed { .. })), "closed {closed}: {error:?}");
        let error = comes_to("try_acquire", &elsewhere, mutex.try_acquire());
        assert!(matches!(error, Err(mutex::Error::Closed { .. })), "closed {closed}: {error:?}");
        let error = comes_to("wait_for_leadership", &elsewhere, latch.wait_for_leadership());
        assert!(matches!(error, Err(leader_latch::Error::Closed { .. })), "closed {closed}: {error:?}");
        comes_to("close of the latch", &elsewhere, latch.close()).expect("there is nothing to delete");
        comes_to("close of the selector", &elsewhere, selector.close()).expect("there is nothing to delete");
        let error = comes_to("close", &elsewhere, client.close()).expect_err("the server could not be told");
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
    }
    comes_to("on_revoke", &elsewhere, guard.on_revoke()).expect_err("it is lost");
    let error = comes_to("release", &elsewhere, guard.release()).expect_err("the node is not deleted");
    assert!(error.is_lost(), "{error:?}");
    let fenced = holder.transaction().check(&fence).set_data("/node", "", None);
    let error = comes_to("commit", &elsewhere, fenced.commit()).expect_err("there is no reply");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    let error = comes_to("connect", &elsewhere, server.client()).expect_err("the server is gone as well");
    assert!(error.to_string().contains("runtime"), "{error}");
}

#[test]
fn calls_of_queues_and_barriers_end_too_whether_they_wait_or_come_later() {
    let (home, elsewhere) = (runtime(), runtime());
    let (server, client) = home.block_on(async {
        let server = TestingServer::start();
        let client = connect(&server).await;
        (server, client)
    });
    let queue = DistributedQueue::builder(&client, "/queue", Utf8).max_items(1).build().expect("a queue");
    let (producer, consumer) = (queue.producer(), queue.consumer());
    let member = DoubleBarrier::new(&client, "/double", 2).expect("a member");
    let barrier = Barrier::new(&client, "/barrier").expect("a barrier");
    let held = home.block_on(async {
        barrier.set().await.expect("set");
        producer.put("a").await.expect("put");
        consumer.take().await.expect("an item")
    });
    let handle = |_: String, _: ClaimHandle| async { Ok::<(), std::io::Error>(()) };
    let mut take = Box::pin(consumer.take());
    let other = queue.consumer();
    let mut consume = Box::pin(other.consume(1, handle));
    let mut put = Box::pin(producer.put("b"));
    let mut enter = Box::pin(member.enter());
    let mut wait = Box::pin(barrier.wait());
    elsewhere.block_on(async {
        assert!(Pin::new(&mut take).now_or_never().is_none());
        assert!(Pin::new(&mut consume).now_or_never().is_none());
        assert!(Pin::new(&mut put).now_or_never().is_none());
        assert!(Pin::new(&mut enter).now_or_never().is_none());
        assert!(Pin::new(&mut wait).now_or_never().is_none());
    });
    drop(home);
    assert!(matches!(comes_to("take", &elsewhere, take), Err(queue::Error::Closed { .. })));
    comes_to("consume", &elsewhere, consume).expect("it was closed");
    assert!(matches!(comes_to("put", &elsewhere, put), Err(queue::Error::Closed { .. })));
    assert!(matches!(comes_to("enter", &elsewhere, enter), Err(double_barrier::Error::Closed { .. })));
    assert!(matches!(comes_to("wait", &elsewhere, wait), Err(barrier::Error::Closed { .. })));
    assert!(!held.is_held());
    comes_to("ack", &elsewhere, held.ack()).expect_err("the ack is not carried out");
    assert!(matches!(comes_to("take", &elsewhere, consumer.take()), Err(queue::Error::Closed { .. })));
    let fresh = queue.consumer();
    assert!(matches!(comes_to("take", &elsewhere, fresh.take()), Err(queue::Error::Closed { .. })));
    comes_to("consume", &elsewhere, fresh.consume(1, handle)).expect("it was closed");
    comes_to("close of a consumer", &elsewhere, fresh.close());
    comes_to("put", &elsewhere, queue.producer().put("c")).expect_err("the item is not put");
    comes_to("close of a producer", &elsewhere, producer.close()).expect_err("the server could not be told");
    drop(server);
}
