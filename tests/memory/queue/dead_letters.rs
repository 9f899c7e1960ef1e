//! Items that cannot be handled.

use zookeeper_recipes::queue::{BoxError, DistributedQueue, Error, Serializer};
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{DEAD, PATH, at_rest, builder, drained, filled, names, queue, setup, taken, texts};
use crate::fixture::{SOON, within};

/// Curator's testRetryAfterFailure, testErrorMode and testRequeuingWithLock.
#[tokio::test(start_paused = true)]
async fn after_its_last_attempt_an_item_is_a_dead_letter_with_the_reason() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b"]).await;
    let queue = builder(&one).max_deliveries(3).build().expect("a queue");
    let consumer = queue.consumer();
    let mut attempts = Vec::new();
    while attempts.len() < 3 {
        let delivery = taken(&consumer).await;
        assert_eq!((delivery.item().as_str(), delivery.name()), ("a", "queue-0000000000"), "it keeps its place");
        attempts.push(delivery.attempt());
        delivery.nack().await.expect("put back");
    }
    assert_eq!(attempts, [1, 2, 3]);
    assert_eq!(drained(&consumer, 1).await, ["b"]);
    at_rest(&server, 0).await;
    let letters = queue.dead_letters().await.expect("an answer");
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.item.as_str(), letter.attempts), ("queue-0000000000", 3));
    assert_eq!(letter.reason, "it was not acknowledged (nack)");
    assert_eq!(letter.items(&zookeeper_recipes::queue::Utf8), Ok(vec!["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_item_is_a_dead_letter_at_once_and_can_be_retried_or_dropped() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b"]).await;
    let queue = queue(&one);
    let consumer = queue.consumer();
    for reason in ["no such\ncustomer", "neither"] {
        taken(&consumer).await.reject(reason).await.expect("buried");
    }
    let letters = queue.dead_letters().await.expect("an answer");
    let reasons: Vec<_> = letters.iter().map(|letter| letter.reason.as_str()).collect();
    assert_eq!(reasons, ["no such customer", "neither"]);
    queue.retry(&letters[0]).await.expect("retried");
    queue.drop(&letters[1]).await.expect("dropped");
    queue.drop(&letters[1]).await.expect("it is gone");
    assert!(queue.retry(&letters[0]).await.is_err(), "it is retried already");
    assert_eq!((texts(&server), server.children(DEAD).len()), (vec!["a".to_owned()], 0));
    let again = taken(&consumer).await;
    assert_eq!((again.attempt(), again.name()), (1, "queue-0000000002"), "a new item");
    again.ack().await.expect("acked");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_decoded_is_kept_as_it_is() {
    let (server, one, two) = setup().await;
    let nodes: [&[u8]; 4] =
        [b"nonsense", b"", &[0, 1, 0, 1, 1, 0x7f, 0xff, 0xff, 0xff, 2], &[0, 1, 0, 1, 1, 0, 0, 0, 1, 0xff, 2]];
    for node in nodes {
        let path = format!("{PATH}/queue-");
        server.create_by_hand(&path, node, CreateMode::PersistentSequential).expect("a new node");
    }
    let _producer = filled(&two, &["good"]).await;
    let queue = queue(&one);
    assert!(matches!(queue.peek().await, Err(Error::Undecodable { .. })));
    assert_eq!(drained(&queue.consumer(), 1).await, ["good"]);
    at_rest(&server, 0).await;
    let letters = queue.dead_letters().await.expect("an answer");
    let kept: Vec<_> = letters.iter().map(|letter| letter.data.as_slice()).collect();
    assert_eq!(kept, nodes);
    assert!(letters.iter().all(|letter| letter.attempts == 1 && letter.reason.contains("cannot be decoded")));
}

#[tokio::test(start_paused = true)]
async fn an_item_at_which_the_serializer_panics_is_a_dead_letter_and_the_consumer_continues() {
    #[derive(Debug)]
    struct Unwary;
    impl Serializer for Unwary {
        type Item = u8;
        fn serialize(&self, item: &u8) -> Result<Vec<u8>, BoxError> {
            Ok(vec![*item])
        }
        fn deserialize(&self, bytes: &[u8]) -> Result<u8, BoxError> {
            Ok(bytes[0])
        }
    }
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["", "a"]).await;
    let queue = DistributedQueue::builder(&one, PATH, Unwary).build().expect("a queue");
    assert!(matches!(queue.peek().await, Err(Error::Undecodable { .. })));
    let delivery = within("the next one comes", SOON, queue.consumer().take()).await.expect("an item");
    assert_eq!(*delivery.item(), b'a');
    delivery.ack().await.expect("acked");
    at_rest(&server, 0).await;
    let letters = queue.dead_letters().await.expect("an answer");
    assert_eq!(letters.len(), 1);
    assert!(letters[0].reason.contains("the serializer panicked: index out of bounds"), "{}", letters[0].reason);
}

#[tokio::test(start_paused = true)]
async fn foreign_nodes_in_the_queue_are_left_alone() {
    let (server, one, two) = setup().await;
    for name in ["qn-0000000000", "notes"] {
        server.create_by_hand(&format!("{PATH}/{name}"), "", CreateMode::Persistent).expect("a new node");
    }
    let _producer = filled(&two, &["a"]).await;
    assert_eq!(drained(&queue(&one).consumer(), 1).await, ["a"]);
    assert_eq!(names(&server), ["notes", "qn-0000000000"]);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_dead_letters_keeps_the_item_and_is_told() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    server.deny(DEAD);
    let error = within("it is refused", SOON, taken(&consumer).await.reject("bad")).await.expect_err("no permission");
    assert_eq!(error.kind(), zookeeper_recipes::ErrorKind::NoAuth, "{error}");
    at_rest(&server, 1).await;
    server.allow(DEAD);
    // Hidden here for a while, as it would fail again.
    assert_eq!(drained(&queue(&two).consumer(), 1).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_letter_is_retried_even_where_the_queues_directory_was_deleted() {
    let (server, client, _) = setup().await;
    let queue = queue(&client);
    queue.producer().put("a").await.expect("put");
    let consumer = queue.consumer();
    taken(&consumer).await.reject("no").await.expect("buried");
    server.delete_by_hand(PATH).expect("it is empty");
    let letters = queue.dead_letters().await.expect("letters");
    queue.retry(&letters[0]).await.expect("retried");
    assert_eq!(queue.dead_letters().await, Ok(vec![]));
    assert_eq!(taken(&consumer).await.item(), "a");
}

/// Only an answer to the transaction itself leaves open whether it was carried out.
#[tokio::test(start_paused = true)]
async fn a_letter_that_is_not_retried_is_not_said_to_be_retried_perhaps() {
    for (of, kind) in [(Operation::Create, ErrorKind::Other), (Operation::Multi, ErrorKind::OutcomeUnknown)] {
        let (server, client, _) = setup().await;
        let queue = queue(&client);
        queue.producer().put("a").await.expect("put");
        taken(&queue.consumer()).await.reject("no").await.expect("buried");
        let letters = queue.dead_letters().await.expect("letters");
        if of == Operation::Create {
            server.delete_by_hand(PATH).expect("it is empty");
        }
        server.lose_next_reply(&client, of, Loss::Malformed);
        let Err(Error::Client { error, .. }) = queue.retry(&letters[0]).await else { panic!("{of:?}") };
        let text = error.to_string();
        assert_eq!((error.kind(), text.contains("its answer cannot be read")), (kind, true), "{of:?}: {text}");
        assert_eq!(text.contains("may have been"), kind == ErrorKind::OutcomeUnknown, "{of:?}: {text}");
    }
}
