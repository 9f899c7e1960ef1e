//! Shared by the tests of the queue.

use zookeeper_recipes::Client;
use zookeeper_recipes::queue::{Consumer, Delivery, DistributedQueue, Utf8};

pub(crate) use crate::fixture::{Fixture, SOON, for_each_loss, lose};
use crate::support::within;

pub(crate) fn queue(client: &Client, path: &str) -> DistributedQueue<Utf8> {
    DistributedQueue::builder(client, path, Utf8).build().expect("a good path")
}

pub(crate) async fn taken(consumer: &Consumer<Utf8>) -> Delivery<String> {
    within("an item is taken", SOON, consumer.take()).await.expect("an item")
}

/// Takes and acks so many items.
pub(crate) async fn drained(consumer: &Consumer<Utf8>, count: usize) -> Vec<String> {
    let mut items = Vec::new();
    for _ in 0..count {
        let delivery = taken(consumer).await;
        items.push(delivery.item().clone());
        delivery.ack().await.expect("acked");
    }
    items
}
