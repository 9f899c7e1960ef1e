//! Shared by the tests of the queue: a server, a path, and helpers for queues.

use zookeeper_recipes::queue::{Consumer, Delivery, DistributedQueue, DistributedQueueBuilder, Producer, Utf8};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::{SOON, within};

pub(crate) const PATH: &str = "/queues/one";
pub(crate) const CLAIMS: &str = "/queues/one-claims";
pub(crate) const PRODUCERS: &str = "/queues/one-producers";
pub(crate) const DEAD: &str = "/queues/one-dead";

pub(crate) type Queue = DistributedQueue<Utf8>;

/// A server on which all directories of the queue exist, and two clients.
pub(crate) async fn setup() -> (TestingServer, Client, Client) {
    let server = TestingServer::start();
    let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    make_directories(&server);
    (server, one, two)
}

/// With them there, a put or a take sends what it sends from the second time on.
pub(crate) fn make_directories(server: &TestingServer) {
    for path in ["/queues", PATH, CLAIMS, PRODUCERS, DEAD] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
}

pub(crate) fn builder(client: &Client) -> DistributedQueueBuilder<Utf8> {
    DistributedQueue::builder(client, PATH, Utf8)
}

pub(crate) fn queue(client: &Client) -> Queue {
    builder(client).build().expect("a good path")
}

pub(crate) async fn put(producer: &Producer<Utf8>, items: &[&str]) {
    for item in items {
        within("it is put", SOON, producer.put(*item)).await.expect("it is put");
    }
}

/// The items of the queue, put by a client of its own.
pub(crate) async fn filled(client: &Client, items: &[&str]) -> Producer<Utf8> {
    let producer = queue(client).producer();
    put(&producer, items).await;
    producer
}

/// The next item, which is expected to be had soon.
pub(crate) async fn taken(consumer: &Consumer<Utf8>) -> Delivery<String> {
    within("an item is taken", SOON, consumer.take()).await.expect("an item")
}

pub(crate) async fn acked(delivery: Delivery<String>) {
    within("it is acked", SOON, delivery.ack()).await.expect("acked");
}

/// Takes and acks so many items.
pub(crate) async fn drained(consumer: &Consumer<Utf8>, count: usize) -> Vec<String> {
    let mut items = Vec::new();
    for _ in 0..count {
        let delivery = taken(consumer).await;
        items.push(delivery.item().clone());
        acked(delivery).await;
    }
    items
}

/// The items' names, in order.
pub(crate) fn names(server: &TestingServer) -> Vec<String> {
    server.children(PATH)
}

/// The contents of the items, in order; each a single text.
pub(crate) fn texts(server: &TestingServer) -> Vec<String> {
    names(server).iter().map(|name| text(&server.get(&format!("{PATH}/{name}")).expect("an item"))).collect()
}

fn text(node: &[u8]) -> String {
    assert_eq!(node[..5], [0, 1, 0, 1, 1], "{node:?}");
    let length = u32::from_be_bytes(node[5..9].try_into().expect("four bytes")) as usize;
    // Behind the end there may be a record of failed deliveries.
    assert_eq!(node[9 + length], 2, "{node:?}");
    String::from_utf8(node[9..9 + length].to_vec()).expect("text")
}

/// Waits until so many items are in the queue, and no consumer holds any.
pub(crate) async fn at_rest(server: &TestingServer, items: usize) {
    server.until(|| names(server).len() == items && server.children(CLAIMS).is_empty()).await;
}
