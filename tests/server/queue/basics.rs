//! The basic behaviour of a queue; the scenarios of Curator's own tests.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;

use super::fixture::{Fixture, SOON, drained, queue, taken};
use crate::fixture::{builder, connect};
use crate::support::{eventually, within};

/// testSimple, testSafetyBasic, testPutMulti, testPutListener: order, singly and as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_come_in_order_and_nodes_are_curators() {
    let fixture = Fixture::new("order").await;
    let (one, two) = (fixture.client().await, fixture.client().await);
    let (producer, consumer) = (queue(&one, &fixture.path).producer(), queue(&two, &fixture.path).consumer());
    for number in 0..10 {
        producer.put(number.to_string()).await.expect("put");
    }
    assert_eq!(fixture.nodes().await.len(), 10);
    let (data, _) = one.get(&format!("{}/queue-0000000000", fixture.path)).await.expect("Curator's name");
    assert_eq!(data, [0, 1, 0, 1, 1, 0, 0, 0, 1, b'0', 2]);
    assert_eq!(drained(&consumer, 10).await, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    producer.put_many(many.clone()).await.expect("put");
    let delivery = taken(&consumer).await;
    assert_eq!(delivery.items(), many);
    delivery.ack().await.expect("acked");
    assert!(fixture.nodes().await.is_empty());
}

/// testNoDuplicateProcessing, testMultiPutterSingleGetter, testCustomExecutor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_producers_and_four_consumers_share_a_thousand_items_and_none_comes_twice() {
    let fixture = Fixture::new("shared").await;
    let clients = join_all((0..4).map(|_| fixture.client())).await;
    let producers = [queue(&clients[0], &fixture.path).producer(), queue(&clients[1], &fixture.path).producer()];
    for number in 0..1_000 {
        drop(producers[number % 2].enqueue(number.to_string()).await.expect("enqueued"));
    }
    for producer in &producers {
        within("all is put", SOON, producer.flush()).await.expect("put");
    }
    let consumers = clients.iter().map(|client| queue(client, &fixture.path).consumer());
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
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_chroot_is_no_empty_queue() {
    let fixture = Fixture::new("chroot").await;
    let hosts = format!("{}{}", fixture.server.connect_string(), fixture.path);
    let client = connect(builder(&hosts, Duration::from_secs(10))).await;
    let told =
        |what: &str, error: String| assert!(error.contains("root that the connect string names"), "{what}: {error}");
    eventually("a client tells by itself", SOON, || async { client.last_error().is_some() }).await;
    told("client", client.last_error().expect("an error").to_string());
    let (queue, missing) = (queue(&client, "/jobs"), "there is no root");
    told("len", queue.len().await.expect_err(missing).to_string());
    told("peek", queue.peek().await.expect_err(missing).to_string());
    told("dead letters", queue.dead_letters().await.expect_err(missing).to_string());
    let consumer = queue.consumer();
    told("take", within("an answer", SOON, consumer.take()).await.expect_err(missing).to_string());
    fixture.observer.create_all(&fixture.path).await;
    assert_eq!(queue.len().await.expect("an answer"), 0);
    queue.producer().put("one".to_owned()).await.expect("put");
    assert_eq!(taken(&consumer).await.item(), "one");
}
