//! The 32-bit counter of the directory comes to its end.

use std::time::Duration;

use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{PATH, line_has, lock, make_directory, setup};
use crate::fixture::{SOON, T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn readers_and_writers_keep_their_order_across_the_end_of_the_counter() {
    let (server, [one, two]) = setup().await;
    server.set_sequence(PATH, i32::MAX - 2).expect("it exists");
    let mut tokens = Vec::new();
    let mut waiting = Vec::new();
    let first = lock(&one).write().acquire().await.expect("it writes");
    for number in 0..9 {
        let lock = lock(if number % 2 == 0 { &one } else { &two });
        waiting.push(server.spawn(&one, async move {
            if number % 3 == 0 {
                let guard = lock.write().acquire().await.expect("it writes");
                let reading = guard.downgrade().await.expect("it reads");
                reading.fencing_token()
            } else {
                lock.read().acquire().await.expect("it reads").fencing_token()
            }
        }));
        line_has(&server, number + 2).await;
    }
    drop(first);
    for waiting in waiting {
        tokens.push(within("its turn comes", T, waiting).await.expect("no panic"));
    }
    assert!(tokens.is_sorted(), "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_beyond_the_end_of_the_counter_keeps_the_first_place() {
    let (server, [one, two]) = setup().await;
    server.set_sequence(PATH, i32::MAX).expect("it exists");
    let writer = lock(&one).write().acquire().await.expect("it writes");
    let other = lock(&two).write();
    let mut waiting = Box::pin(other.acquire());
    still_pending("one writes", &mut waiting).await;
    let reader = writer.downgrade().await.expect("it reads");
    still_pending("one reads", &mut waiting).await;
    let participants = lock(&two).participants().await.expect("a list");
    assert_eq!(participants[0], reader.node_path());
    reader.release().await.expect("it was held");
    drop(within("it writes", T, waiting).await.expect("it writes"));
}

/// Its number does not tell its place, so it is looked up after the list, and may be gone by then.
#[tokio::test(start_paused = true)]
async fn a_writer_that_becomes_a_reader_while_another_orders_the_line_is_not_overlooked() {
    for after in 0..40 {
        let latency = Duration::from_millis(5);
        let server = TestingServer::builder().latency(latency..=latency).start();
        make_directory(&server);
        let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
        server.set_sequence(PATH, i32::MAX).expect("it exists");
        let writer = lock(&one).write().acquire().await.expect("it writes");
        let other = lock(&two).write();
        let trying = server.spawn(&two, async move { other.try_acquire().await.expect("an answer") });
        tokio::time::sleep(Duration::from_millis(after)).await;
        let reader = writer.downgrade().await.expect("it reads");
        let tried = trying.await.expect("no panic");
        assert!(reader.is_held());
        assert!(tried.is_none(), "a writer beside a reader, after {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_spent_directory_is_removed_with_a_reader_that_was_a_writer() {
    const MADE: &str = "/locks/made";
    let (server, [client]) = setup().await;
    let lock = InterProcessReadWriteLock::new(&client, MADE).expect("a good path");
    lock.write().acquire().await.expect("it writes").release().await.expect("it was held");
    server.set_sequence(MADE, i32::MAX - 3).expect("it exists");
    let reader = lock.write().acquire().await.expect("it writes").downgrade().await.expect("it reads");
    reader.release().await.expect("it was held");
    // Sooner than the server takes empty containers away.
    within("the directory is deleted", SOON, server.until(|| server.stat(MADE).is_none())).await;
}
