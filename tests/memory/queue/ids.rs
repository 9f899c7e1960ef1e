//! Items that are put with an id, and removed by it.

use futures::StreamExt;
use zookeeper_recipes::queue::{Error, Event};
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{CLAIMS, PATH, acked, at_rest, drained, names, put, queue, setup, taken};
use crate::fixture::{SOON, T, requests, within};

/// The data of a node with the item "a".
const ITEM: &[u8] = &[0, 1, 0, 1, 1, 0, 0, 0, 1, b'a', 2];

#[tokio::test(start_paused = true)]
async fn items_with_ids_come_in_the_order_of_their_puts_and_are_removed_by_id() {
    let (server, one, two) = setup().await;
    let (queue, producer) = (queue(&one), queue(&one).producer());
    for (id, item) in [("z", "1"), ("my/i|d", "2"), ("z", "3"), ("a", "4")] {
        producer.id(id).put(item).await.expect("put");
    }
    put(&producer, &["5"]).await;
    assert_eq!(names(&server)[2], "queue-|my_i_d|0000000001");
    server.clear_records();
    assert_eq!(queue.remove("z").await, Ok(2));
    assert_eq!(requests(&server), [Operation::List, Operation::Multi, Operation::Multi]);
    assert_eq!(
        (queue.remove("my/i|d").await, queue.remove("my_i_d").await, queue.remove("y").await),
        (Ok(1), Ok(0), Ok(0))
    );
    assert_eq!(drained(&super::fixture::queue(&two).consumer(), 2).await, ["4", "5"]);
    at_rest(&server, 0).await;
}

/// Curator's queue with ids takes any.
#[tokio::test(start_paused = true)]
async fn ids_that_look_like_times_are_removed_and_others_of_digits_are_delivered() {
    let (server, one, two) = setup().await;
    for id in ["10000000042", "79991234567", "7FFFFFFFFFFFFFFF", "100000000042", "1785000000000"] {
        let node = format!("{PATH}/queue-|{id}|");
        server.create_by_hand(&node, ITEM, CreateMode::PersistentSequential).expect("a new node");
    }
    let consumer = queue(&two).consumer();
    let mut events = consumer.events();
    assert_eq!(drained(&consumer, 3).await, ["a"; 3]);
    let mut told = [within("told", SOON, events.next()).await, within("told", SOON, events.next()).await];
    told.sort_by_key(|told| format!("{told:?}"));
    let [far, never] = ["queue-|79991234567|0000000001", "queue-|7FFFFFFFFFFFFFFF|0000000002"].map(str::to_owned);
    assert_eq!(told, [Some(Event::FarAhead { item: far }), Some(Event::Skipped { node: never })]);
    for id in ["79991234567", "7FFFFFFFFFFFFFFF"] {
        assert_eq!(queue(&one).remove(id).await, Ok(1));
    }
    at_rest(&server, 0).await;
}

/// Curator's testDeletingWithLock.
#[tokio::test(start_paused = true)]
async fn an_item_that_is_claimed_is_not_removed_and_one_that_was_removed_is_not_delivered() {
    for locked_by_curator in [false, true] {
        let (server, one, two) = setup().await;
        let (queue, producer) = (queue(&one), queue(&one).producer());
        producer.id("a").put("first").await.expect("put");
        producer.id("a").put("second").await.expect("put");
        let consumer = super::fixture::queue(&two).consumer();
        let lock = format!("{CLAIMS}/{}", names(&server)[0]);
        if locked_by_curator {
            server.create_by_hand(&lock, "", CreateMode::Persistent).expect("a new node");
            assert_eq!(queue.remove("a").await, Ok(1));
            server.delete_by_hand(&lock).expect("it exists");
            assert_eq!(drained(&consumer, 1).await, ["first"]);
        } else {
            let held = taken(&consumer).await;
            assert_eq!(queue.remove("a").await, Ok(1));
            assert!(held.is_held());
            held.nack().await.expect("returned");
            let held = taken(&consumer).await;
            assert_eq!((held.item().as_str(), held.attempt()), ("first", 2));
            acked(held).await;
        }
        assert_eq!(queue.remove("a").await, Ok(0));
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_whose_answer_is_lost_is_unknown_or_is_done_and_never_said_wrongly() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, one, _) = setup().await;
        let (queue, producer) = (queue(&one), queue(&one).producer());
        producer.id("a").put("first").await.expect("put");
        server.lose_next_reply(&one, Operation::Multi, loss);
        let removed = within("it is known", T, queue.remove("a")).await;
        match loss {
            // A consumer may have taken it as well.
            Loss::Applied => {
                assert_eq!(removed.expect_err("it is gone").kind(), ErrorKind::OutcomeUnknown);
                assert_eq!(queue.remove("a").await, Ok(0));
            }
            _ => assert_eq!(removed, Ok(1)),
        }
        at_rest(&server, 0).await;
    }
}

/// The copy whose answer was lost may still arrive when the item is free again.
#[tokio::test(start_paused = true)]
async fn a_removal_that_is_lost_before_the_item_is_claimed_is_unknown() {
    let (server, one, two) = setup().await;
    let (queue, producer) = (queue(&one), queue(&one).producer());
    producer.id("a").put("first").await.expect("put");
    server.lose_next_reply(&one, Operation::Multi, Loss::NotApplied);
    server.refuse(&one);
    let removing = tokio::spawn(async move { queue.remove("a").await });
    server.until(|| server.lost_replies() == 1).await;
    let held = taken(&super::fixture::queue(&two).consumer()).await;
    server.heal();
    let error = within("it is known", T, removing).await.expect("no panic").expect_err("claimed");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    acked(held).await;
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_works_without_the_directories_and_tells_what_is_missing() {
    let (server, one, _) = setup().await;
    let (queue, producer) = (queue(&one), queue(&one).producer());
    producer.id("a").put("first").await.expect("put");
    server.delete_by_hand(CLAIMS).expect("it is empty");
    assert_eq!(queue.remove("a").await, Ok(1));
    producer.id("a").put("first").await.expect("put");
    server.deny(CLAIMS);
    let error = within("it is refused", SOON, queue.remove("a")).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth);
    assert_eq!(names(&server).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ids_that_cannot_be_names_or_look_like_times_are_refused() {
    let (server, one, _) = setup().await;
    let producer = queue(&one).producer();
    for id in ["", "10000000042", "7FFFFFFFFFFFFFFF", "a\u{1}", &"x".repeat(256)] {
        let error = producer.id(id).put("a").await.expect_err("it is refused");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(names(&server), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_retried_keeps_its_id() {
    let (_server, one, _) = setup().await;
    let (queue, producer) = (queue(&one), queue(&one).producer());
    producer.id("a").put("first").await.expect("put");
    let consumer = queue.consumer();
    taken(&consumer).await.reject("no").await.expect("rejected");
    let letter = queue.dead_letters().await.expect("letters").remove(0);
    queue.retry(&letter).await.expect("retried");
    assert_eq!(queue.remove("a").await, Ok(1));
}
