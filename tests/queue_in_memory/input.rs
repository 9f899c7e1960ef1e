//! What is refused before anything is sent.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::queue::{DistributedQueue, Error, Utf8};

use super::scene::{PATH, builder, scene};
use crate::in_memory::requests;

#[tokio::test(start_paused = true)]
async fn malformed_paths_and_options_out_of_range_are_refused_at_the_start() {
    let (server, client, _) = scene().await;
    server.clear_records();
    for path in ["", "queue", "/", "/a/", "/a//b", "/a/../b"] {
        let error = DistributedQueue::builder(&client, path, Utf8).start().expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error}");
        let error = builder(&client).claims_path(path).start().expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error}");
    }
    let wrong = [
        builder(&client).claims_path(PATH),
        builder(&client).max_items(0),
        builder(&client).max_attempts(0),
        builder(&client).prefetch(1_001),
    ];
    for builder in wrong {
        let error = builder.start().expect_err("out of range");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert!(!error.is_retryable() && error.kind() == ErrorKind::InvalidArgument);
    }
    assert_eq!(requests(&server), []);
    client.close().await.expect("closed");
    assert!(matches!(builder(&client).start(), Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_and_a_claims_path_of_ones_own_are_heeded() {
    let (server, _, _) = scene().await;
    let client = zookeeper_recipes::Client::builder_for(&server).namespace("/ns").connect().await.expect("a client");
    let queue = builder(&client).claims_path("/locks").start().expect("a queue");
    let producer = queue.producer();
    producer.put("a").await.expect("put");
    assert_eq!(server.children(&format!("/ns{PATH}")).len(), 1);
    assert_eq!(queue.peek().await, Ok(Some(vec!["a".to_owned()])));
    let consumer = queue.consumer();
    let delivery = consumer.take().await.expect("an item");
    assert_eq!(server.children("/ns/locks"), [delivery.name()]);
    delivery.reject("no").await.expect("buried");
    let letters = queue.dead_letters().await.expect("an answer");
    queue.put_back(&letters[0]).await.expect("put back");
    consumer.take().await.expect("an item").ack().await.expect("acked");
}
