//! Items that the servers do not read, because their `jute.maxbuffer` is lower than the client believes.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::queue::{DistributedQueue, RawBytes};
use zookeeper_recipes::testing::{RecordKind, TestingServer};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{DEAD, PATH, names, queue, setup, taken};
use crate::fixture::{SOON, T, within};

const MAX_BUFFER: usize = 64 * 1024;

fn losses(server: &TestingServer) -> usize {
    server.records().iter().filter(|record| record.what == RecordKind::Disconnected).count()
}

#[tokio::test(start_paused = true)]
async fn a_put_too_large_fails_alone() {
    let (server, client, _) = setup().await;
    server.max_buffer(MAX_BUFFER);
    let producer = DistributedQueue::builder(&client, PATH, RawBytes).build().expect("a queue").producer();
    let mutex = InterProcessMutex::new(&client, "/locks/one").expect("a good path");
    for round in 0..3 {
        // Some of them share a transaction with it, or follow it in one of their own.
        let sizes = (0..200).map(|number| if number == 70 { 100_000 } else { 10 + number });
        let mut puts = Vec::new();
        for bytes in sizes.clone() {
            puts.push(producer.enqueue(vec![round; bytes]).await.expect("enqueued"));
        }
        let put = within("all end", T * 2, join_all(puts)).await;
        for (bytes, put) in sizes.clone().zip(put) {
            match put {
                Ok(()) => assert_ne!(bytes, 100_000),
                Err(error) => {
                    assert_eq!((bytes, error.kind()), (100_000, ErrorKind::InvalidArgument), "{error}");
                    assert!(error.to_string().contains("1048575 bytes"), "{error}");
                }
            }
        }
        let lengths: Vec<_> =
            names(&server).iter().map(|name| server.get(&format!("{PATH}/{name}")).expect("an item").len()).collect();
        let expected: Vec<_> = sizes.filter(|bytes| *bytes < 100_000).map(|bytes| bytes + 10).collect();
        let round = usize::from(round);
        assert_eq!(lengths[expected.len() * round..], expected, "each once, in order");
        within("it is acquired", SOON * 5, mutex.acquire()).await.expect("acquired").release().await.expect("released");
    }
    assert!(losses(&server) <= 8, "{}", losses(&server));
}

#[tokio::test(start_paused = true)]
async fn puts_that_are_too_large_together_share_smaller_transactions() {
    let (server, client, _) = setup().await;
    server.max_buffer(MAX_BUFFER);
    let producer = DistributedQueue::builder(&client, PATH, RawBytes).build().expect("a queue").producer();
    let puts = join_all((0..300).map(|_| producer.put(vec![1; 2_000])));
    within("they are put", T * 3, puts).await.into_iter().for_each(|put| put.expect("put"));
    assert_eq!(names(&server).len(), 300);
    assert!(losses(&server) <= 6, "{}", losses(&server));
}

/// Put by another client, or before the servers had this limit.
#[tokio::test(start_paused = true)]
async fn an_item_that_cannot_be_claimed_keeps_no_other_back() {
    let (server, one, two) = setup().await;
    let item = |bytes: usize| {
        let length = u32::try_from(bytes).expect("a short one").to_be_bytes();
        [&[0, 1, 0, 1, 1], &length[..], &vec![b'x'; bytes], &[2]].concat()
    };
    server.max_buffer(MAX_BUFFER);
    server.create_by_hand(&format!("{PATH}/queue-"), item(80_000), CreateMode::PersistentSequential).expect("new");
    queue(&one).producer().put("good").await.expect("put");
    let consumer = queue(&two).consumer();
    let good = within("it comes", T * 2, consumer.take()).await.expect("an item");
    assert_eq!(good.item(), "good");
    good.ack().await.expect("acked");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(names(&server).len(), 1, "nothing is lost");
    let told = two.last_error().expect("the error is reported").to_string();
    assert!(told.contains("jute.maxbuffer"), "{told}");
    assert!(losses(&server) <= 6, "{}", losses(&server));
}

#[tokio::test(start_paused = true)]
async fn an_item_that_cannot_become_a_dead_letter_is_kept() {
    let (server, one, two) = setup().await;
    server.max_buffer(MAX_BUFFER);
    let producer = queue(&one).producer();
    producer.put("x".repeat(64_000)).await.expect("put");
    let consumer = queue(&two).consumer();
    let large = taken(&consumer).await;
    let error = within("it ends", T, large.reject("r".repeat(2_000))).await.expect_err("it is too large");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    producer.put("small").await.expect("put");
    let small = within("it comes", T, consumer.take()).await.expect("an item");
    assert_eq!(small.item(), "small");
    small.ack().await.expect("acked");
    assert_eq!((names(&server).len(), server.children(DEAD).len()), (1, 0));
    assert!(losses(&server) <= 2, "{}", losses(&server));
}
