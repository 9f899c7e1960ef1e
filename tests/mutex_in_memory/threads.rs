//! Guards on several threads, where the task that keeps a place runs beside its caller.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Builder;
use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::testing::TestingServer;

const PATH: &str = "/lock";

/// What the threads of a runtime have logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_delete_of_a_dropped_guard_is_not_taken_for_that_of_another_client() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(LevelFilter::WARN).with_writer(move || writer.clone());
    let warnings = tracing::Dispatch::new(subscriber.finish());
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        // For as long as the thread runs.
        .on_thread_start(move || std::mem::forget(tracing::dispatcher::set_default(&warnings)))
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
    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("a text");
    assert_eq!(log.lines().filter(|line| line.contains("deleted by")).count(), 0, "{log}");
}
