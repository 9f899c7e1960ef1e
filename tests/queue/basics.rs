//! What a queue is there for; the scenarios of Curator's own tests.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::queue::Error;

use super::words::{SOON, Scene, drained, queue, taken};
use crate::support::within;

/// testSimple, testSafetyBasic, testPutMulti, testPutListener: order, singly and as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_come_in_order_and_nodes_are_curators() {
    let scene = Scene::new("order").await;
    let (one, two) = (scene.client().await, scene.client().await);
    let (producer, consumer) = (queue(&one, &scene.path).producer(), queue(&two, &scene.path).consumer());
    for number in 0..10 {
        producer.put(number.to_string()).await.expect("put");
    }
    assert_eq!(scene.nodes().await.len(), 10);
    let (data, _) = one.get(&format!("{}/queue-0000000000", scene.path)).await.expect("Curator's name");
    assert_eq!(data, [0, 1, 0, 1, 1, 0, 0, 0, 1, b'0', 2]);
    assert_eq!(drained(&consumer, 10).await, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    producer.put_many(many.clone()).await.expect("put");
    let delivery = taken(&consumer).await;
    assert_eq!(delivery.items(), many);
    delivery.ack().await.expect("acked");
    assert!(scene.nodes().await.is_empty());
}

/// testNoDuplicateProcessing, testMultiPutterSingleGetter, testCustomExecutor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_producers_and_four_consumers_share_a_thousand_items_and_none_comes_twice() {
    let scene = Scene::new("shared").await;
    let clients = join_all((0..4).map(|_| scene.client())).await;
    let producers = [queue(&clients[0], &scene.path).producer(), queue(&clients[1], &scene.path).producer()];
    for number in 0..1_000 {
        drop(producers[number % 2].enqueue(number.to_string()).await.expect("enqueued"));
    }
    for producer in &producers {
        within("all is put", SOON, producer.flush()).await.expect("put");
    }
    let consumers = clients.iter().map(|client| queue(client, &scene.path).consumer());
    let shares = join_all(consumers.map(|consumer| async move {
        let mut items = Vec::new();
        while let Ok(taken) = tokio::time::timeout(Duration::from_secs(2), consumer.take()).await {
            let delivery = taken.expect("an item");
            items.push(delivery.item().clone());
            delivery.ack().await.expect("acked");
        }
        items
    }))
    .await;
    let mut times = BTreeMap::new();
    shares.iter().flatten().for_each(|item| *times.entry(item).or_insert(0) += 1);
    assert!(times.len() == 1_000 && times.values().all(|times| *times == 1));
    assert!(scene.nodes().await.is_empty());
}

/// testRetryAfterFailure, testErrorMode, testRequeuingWithLock; and dead letters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_fails_keeps_its_name_and_is_a_dead_letter_in_the_end() {
    let scene = Scene::new("fails").await;
    let client = scene.client().await;
    let queue =
        zookeeper_recipes::queue::DistributedQueue::builder(&client, &scene.path, zookeeper_recipes::queue::Utf8);
    let queue = queue.max_deliveries(3).start().expect("a queue");
    queue.producer().put("a").await.expect("put");
    let consumer = queue.consumer();
    for attempt in 1..=3 {
        let delivery = taken(&consumer).await;
        assert_eq!((delivery.name(), delivery.attempt()), ("queue-0000000000", attempt));
        delivery.nack().await.expect("put back");
    }
    assert!(scene.nodes().await.is_empty());
    let letters = queue.dead_letters().await.expect("an answer");
    assert_eq!((letters.len(), letters[0].attempts), (1, 3));
    queue.put_back(&letters[0]).await.expect("put back");
    assert_eq!(drained(&consumer, 1).await, ["a"]);
}

/// TestBoundedDistributedQueue.testSimple; and a close in the middle of a wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_makes_puts_wait_time_out_or_end_with_close() {
    let scene = Scene::new("bounded").await;
    let client = scene.client().await;
    let bounded =
        zookeeper_recipes::queue::DistributedQueue::builder(&client, &scene.path, zookeeper_recipes::queue::Utf8);
    let producer = bounded.max_items(1).start().expect("a queue").producer();
    producer.put("a").await.expect("put");
    let full = producer.put_timeout("b", Duration::from_millis(300)).await;
    assert!(matches!(full, Err(Error::Full { limit: 1, .. })), "{full:?}");
    let later = tokio::spawn({
        let producer = producer.clone();
        async move {
            for item in ["b", "c"] {
                producer.put(item).await.expect("put");
            }
            producer.put("never").await
        }
    });
    let consumer = queue(&client, &scene.path).consumer();
    assert_eq!(drained(&consumer, 2).await, ["a", "b"]);
    let held = taken(&consumer).await;
    within("it closes", SOON, producer.close()).await.expect("put");
    assert!(matches!(within("it is released", SOON, later).await.expect("no panic"), Err(Error::Closed { .. })));
    held.ack().await.expect("acked");
    assert!(scene.nodes().await.is_empty());
}
