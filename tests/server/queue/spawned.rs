//! Handlers on tasks of their own, on a runtime of several threads.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use zookeeper_recipes::queue::{ClaimHandle, DistributedQueue, Spawned, Utf8};

use super::fixture::{Fixture, SOON};
use crate::fixture::{eventually, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handlers_that_block_their_threads_run_in_parallel() {
    let fixture = Fixture::new("spawned").await;
    let client = fixture.client().await;
    let queue = DistributedQueue::builder(&client, &fixture.path, Utf8).max_deliveries(1).build().expect("a good path");
    let producer = queue.producer();
    for item in ["a", "b"] {
        producer.put(item).await.expect("put");
    }
    let running = Arc::new((Mutex::new(0), Condvar::new()));
    let handler = move |_: String, _: ClaimHandle| {
        let running = Arc::clone(&running);
        async move {
            let (running, changed) = &*running;
            let mut both = running.lock().expect("no panic");
            *both += 1;
            changed.notify_all();
            // On the thread, until the other one runs: on one task it never would.
            let waited = changed.wait_timeout_while(both, SOON, |running| *running < 2).expect("no panic").1;
            if waited.timed_out() { Err(io::Error::other("it was alone")) } else { Ok(()) }
        }
    };
    let all_handled = eventually("all is handled", 2 * SOON, async || fixture.nodes().await.is_empty());
    let consumer = queue.consumer();
    let consuming = consumer.consume_until(2, Spawned::new(handler), all_handled);
    within("it ends", 3 * SOON, consuming).await.expect("consumed");
    assert_eq!(queue.dead_letters().await.expect("an answer"), []);
}
