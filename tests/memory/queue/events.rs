//! Failures that no call returns are reported as events.

use futures::StreamExt;
use zookeeper_recipes::queue::{ClaimHandle, Event};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{CLAIMS, DEAD, PATH, builder, drained, filled, names, queue, setup, taken};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_no_consumer_asked_for_is_an_event() {
    let (server, one, two) = setup().await;
    server.create_by_hand(&format!("{PATH}/queue-"), "nonsense", CreateMode::PersistentSequential).expect("a new node");
    let _producer = filled(&two, &["good"]).await;
    let consumer = queue(&one).consumer();
    let mut events = consumer.events();
    assert_eq!(drained(&consumer, 1).await, ["good"]);
    let Some(Event::DeadLetter { item, attempts: 1, reason }) = within("told", SOON, events.next()).await else {
        panic!("a dead letter")
    };
    assert!(item == "queue-0000000000" && reason.contains("cannot be decoded"), "{item}: {reason}");
    consumer.close().await;
    drop(consumer);
    assert_eq!(within("it ends", SOON, events.next()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_fails_inside_consume_is_an_event() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    let mut events = consumer.events();
    let handler = |_: String, claim: ClaimHandle| {
        if claim.attempt() == 1 {
            server.delete_by_hand(&format!("{CLAIMS}/{}", claim.name())).expect("it exists");
        }
        async { Ok::<(), std::io::Error>(()) }
    };
    let stop = async {
        server.until(|| names(&server).is_empty()).await;
        consumer.close().await;
    };
    within("handled", T, futures::future::join(consumer.consume(1, handler), stop)).await.0.expect("closed");
    let Some(Event::Unsettled { item, error }) = within("told", SOON, events.next()).await else { panic!("an event") };
    assert_eq!((item.as_str(), error.kind()), ("queue-0000000000", ErrorKind::Fenced));
}

/// As [`Producer::flush`](zookeeper_recipes::queue::Producer::flush) does for a put.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_failed_before_its_future_was_dropped_is_an_event() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    let mut events = consumer.events();
    let held = taken(&consumer).await;
    server.delete_by_hand(&format!("{CLAIMS}/{}", held.name())).expect("it exists");
    let mut ack = Box::pin(held.ack());
    assert!(futures::poll!(&mut ack).is_pending());
    tokio::time::sleep(SOON).await;
    drop(ack);
    let told = within("told", SOON, events.next()).await;
    let Some(Event::Unsettled { item, error }) = told else { panic!("{told:?}") };
    assert_eq!((item.as_str(), error.kind()), ("queue-0000000000", ErrorKind::Fenced));
    // An error that is returned to a caller is no event.
    let held = taken(&consumer).await;
    server.delete_by_hand(&format!("{CLAIMS}/{}", held.name())).expect("it exists");
    within("it is refused", SOON, held.ack()).await.expect_err("lost");
    assert!(tokio::time::timeout(SOON, events.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_item_in_no_format_of_curators_is_left_alone_and_told_of_once() {
    let (server, one, two) = setup().await;
    let other = "queue-?0000000000";
    server.create_by_hand(&format!("{PATH}/{other}"), "", CreateMode::Persistent).expect("a new node");
    let consumer = queue(&one).consumer();
    let mut events = consumer.events();
    let _producer = filled(&two, &["a", "b"]).await;
    assert_eq!(drained(&consumer, 2).await, ["a", "b"]);
    assert_eq!(within("told", SOON, events.next()).await, Some(Event::Skipped { node: other.into() }));
    assert!(tokio::time::timeout(SOON, events.next()).await.is_err(), "once");
    assert_eq!(names(&server), [other]);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_cannot_be_buried_is_kept_and_told_of() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b"]).await;
    let consumer = builder(&one).max_deliveries(1).build().expect("a queue").consumer();
    // The process dies with it.
    let held = taken(&consumer).await;
    server.expire_session(&one);
    std::mem::forget(held);
    server.deny(DEAD);
    let mut events = consumer.events();
    let next = within("it keeps no other back", T, consumer.take()).await.expect("an item");
    assert_eq!(next.item(), "b");
    next.ack().await.expect("acked");
    let Some(Event::Unsettled { error, .. }) = within("told", SOON, events.next()).await else { panic!("a failure") };
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert_eq!(names(&server).len(), 1);
}
