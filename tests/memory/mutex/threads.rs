//! Guards on several threads, where the task that keeps a place runs beside its caller.

use std::sync::mpsc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Builder;
use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::mutex::{Error, InterProcessMutex, MutexGuard};
use zookeeper_recipes::testing::TestingServer;

use crate::fixture::log::Log;

const PATH: &str = "/lock";
/// Real time: no call here takes a second.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_delete_of_a_dropped_guard_is_not_taken_for_that_of_another_client() {
    let (log, subscriber) = Log::new(LevelFilter::WARN);
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        // For as long as the thread runs.
        .on_thread_start(move || std::mem::forget(tracing::dispatcher::set_default(&subscriber)))
        .build()
        .expect("a runtime");
    let (server, mutex) = runtime.block_on(async {
        let server = TestingServer::builder().latency(Duration::ZERO..=Duration::ZERO).start();
        server.create_by_hand(PATH, "", CreateMode::Persistent).expect("a new node");
        let client = server.client().await.expect("a client");
        let mutex = InterProcessMutex::new(&client, PATH).expect("a good path");
        (server, mutex)
    });
    for _ in 0..500 {
        let guard = runtime.block_on(mutex.acquire()).expect("the lock");
        // From now on a task watches the node.
        runtime.block_on(guard.run(tokio::task::yield_now())).expect("it is held");
        drop(guard);
        runtime.block_on(server.until(|| server.children(PATH).is_empty()));
    }
    drop(runtime);
    assert_eq!(log.lines("deleted by"), [""; 0]);
}

type Acquired = Result<MutexGuard, Error>;

/// What happens to a caller while it waits.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    Nothing,
    /// Its connection breaks: it spreads its requests out.
    Disconnected,
    /// Its node is deleted by hand twice: it enters again, after a delay.
    Deleted,
}

/// Waits for a lock of the same client on that runtime, if it is one. The lock is released when the caller has a place
/// again.
fn waits(meanwhile: Meanwhile, on: impl FnOnce(BoxFuture<'_, Acquired>) -> Acquired + Send + 'static) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (server, client, mutex, guard) = runtime.block_on(async {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let mutex = InterProcessMutex::new(&client, PATH).expect("a good path");
        let guard = mutex.acquire().await.expect("the lock");
        (server, client, mutex, guard)
    });
    let handle = runtime.handle().clone();
    let (own, connection) = (server.clone(), client.clone());
    let release = std::thread::spawn(move || {
        handle.block_on(async {
            // A holder whose guard was not asked for its loss has no watch: the first watch is the waiter's.
            let waits = || server.children(PATH).len() == 2 && server.watches() > 0;
            server.until(waits).await;
            match meanwhile {
                Meanwhile::Nothing => {}
                Meanwhile::Disconnected => {
                    assert_eq!(server.disconnect(&client), 1);
                    server.until(|| server.watches() == 0).await;
                }
                Meanwhile::Deleted => {
                    for _ in 0..2 {
                        let last =
                            server.children(PATH).into_iter().max_by_key(|name| name[name.len() - 10..].to_owned());
                        server.delete_by_hand(&format!("{PATH}/{}", last.expect("two"))).expect("it is there");
                        server.until(waits).await;
                    }
                }
            }
            server.until(waits).await;
        });
        drop(guard);
    });
    let (acquired, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let guard = on(mutex.acquire().boxed()).expect("held");
        // The connection breaks before the delete is answered.
        own.disconnect(&connection);
        acquired.send(futures::executor::block_on(guard.release()))
    });
    let released = ended.recv_timeout(PATIENCE).expect("the caller neither panics nor waits for ever");
    assert!(released.as_ref().map_or_else(Error::is_lost, |()| true), "{released:?}");
    release.join().expect("no panic");
}

#[test]
fn a_caller_outside_of_a_runtime_may_wait() {
    for meanwhile in [Meanwhile::Nothing, Meanwhile::Disconnected, Meanwhile::Deleted] {
        waits(meanwhile, |acquiring| futures::executor::block_on(acquiring));
    }
}

#[test]
fn a_caller_on_a_runtime_without_a_timer_may_wait() {
    for meanwhile in [Meanwhile::Nothing, Meanwhile::Disconnected, Meanwhile::Deleted] {
        let without_timer = Builder::new_current_thread().build().expect("a runtime");
        waits(meanwhile, move |acquiring| without_timer.block_on(acquiring));
    }
}
