//! Guards on several threads, where the task that keeps a place runs beside its caller.

use std::time::Duration;

use tokio::runtime::Builder;
use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::testing::TestingServer;

use crate::fixture::log::Log;

const PATH: &str = "/lock";

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
