//! Input that is refused before anything is sent.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::queue::{ClaimHandle, DistributedQueue, Error, Utf8};

use super::fixture::{DEAD, PATH, PRODUCERS, builder, drained, filled, queue, setup, taken, texts};
use crate::fixture::{SOON, requests, within};

#[tokio::test(start_paused = true)]
async fn malformed_paths_and_options_out_of_range_are_refused_at_the_start() {
    let (server, client, _) = setup().await;
    server.clear_records();
    for path in ["", "queue", "/", "/a/", "/a//b", "/a/../b"] {
        let error = DistributedQueue::builder(&client, path, Utf8).build().expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error}");
        let error = builder(&client).claims_path(path).build().expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error}");
    }
    let wrong = [
        builder(&client).claims_path(PATH),
        builder(&client).claims_path(format!("{PATH}/claims")),
        builder(&client).claims_path(PRODUCERS),
        builder(&client).claims_path(format!("{DEAD}/below")),
        builder(&client).max_items(0),
        builder(&client).max_deliveries(0),
        builder(&client).prefetch(1_001),
    ];
    for builder in wrong {
        let error = builder.build().expect_err("out of range");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert!(!error.is_retryable() && error.kind() == ErrorKind::InvalidArgument);
    }
    assert_eq!(requests(&server), []);
    client.close().await.expect("closed");
    assert!(matches!(builder(&client).build(), Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_put_without_items_and_nothing_is_handled_without_handlers() {
    let (server, client, _) = setup().await;
    server.clear_records();
    queue(&client).producer().put_many(Vec::<String>::new()).await.expect("that is soon done");
    let handle = |_: String, _: ClaimHandle| async { Ok::<(), std::io::Error>(()) };
    let error = queue(&client).consumer().consume(0, handle).await.expect_err("there are no handlers");
    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    assert_eq!(requests(&server), []);
}

#[tokio::test(start_paused = true)]
async fn an_item_may_be_put_back_for_the_longest_delay() {
    let (server, client, other) = setup().await;
    let _producer = filled(&other, &["a", "b", "c"]).await;
    let consumer = queue(&client).consumer();
    let delivery = taken(&consumer).await;
    let month = std::time::Duration::from_secs(30 * 24 * 3_600);
    within("put back", SOON, delivery.nack_after(month)).await.expect("put back");
    assert_eq!(drained(&consumer, 2).await, ["b", "c"], "the consumer still works");
    assert_eq!(texts(&server), ["a"]);
    let mut elsewhere = Box::pin(async { queue(&other).consumer().take().await });
    crate::fixture::still_pending("it is delayed for all", &mut elsewhere).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_beside_another_leaves_its_dead_letters_alone() {
    let (_server, client, _) = setup().await;
    let one = queue(&client);
    one.producer().put("a").await.expect("put");
    taken(&one.consumer()).await.reject("no").await.expect("buried");
    let beside = DistributedQueue::builder(&client, DEAD, Utf8).build().expect("a queue");
    beside.producer().put("b").await.expect("put");
    assert_eq!(drained(&beside.consumer(), 1).await, ["b"]);
    let letters = one.dead_letters().await.expect("letters");
    assert_eq!(letters.len(), 1, "{letters:?}");
}

#[tokio::test(start_paused = true)]
async fn a_custom_namespace_and_claims_path_are_used() {
    let (server, _, _) = setup().await;
    let client =
        zookeeper_recipes::Client::builder_for_testing(&server).namespace("/ns").connect().await.expect("a client");
    let queue = builder(&client).claims_path("/locks").build().expect("a queue");
    let producer = queue.producer();
    producer.put("a").await.expect("put");
    assert_eq!(server.children(&format!("/ns{PATH}")).len(), 1);
    assert_eq!(queue.peek().await, Ok(Some(vec!["a".to_owned()])));
    let consumer = queue.consumer();
    let delivery = consumer.take().await.expect("an item");
    assert_eq!(server.children("/ns/locks"), [delivery.name()]);
    delivery.reject("no").await.expect("buried");
    let letters = queue.dead_letters().await.expect("an answer");
    queue.retry(&letters[0]).await.expect("retried");
    consumer.take().await.expect("an item").ack().await.expect("acked");
}
