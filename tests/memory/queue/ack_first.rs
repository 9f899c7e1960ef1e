//! At most once: an item is acknowledged first, and worked on then.

use futures::StreamExt;
use zookeeper_recipes::queue::{AckMode, ClaimHandle, Event};
use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{acked, at_rest, builder, filled, names, put, queue, setup, taken};
use crate::fixture::{SOON, T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn an_ack_returns_the_items_that_left_the_queue_with_it() {
    for loss in [None, Some(Loss::Applied), Some(Loss::NotApplied)] {
        let (server, one, two) = setup().await;
        let producer = queue(&two).producer();
        producer.put_many(["a", "b"]).await.expect("put");
        let consumer = queue(&one).consumer();
        let delivery = taken(&consumer).await;
        if let Some(loss) = loss {
            server.lose_next_reply(&one, Operation::Multi, loss);
        }
        let items = within("it is acked", T, delivery.ack()).await.expect("acked");
        assert_eq!(items, ["a", "b"], "{loss:?}");
        at_rest(&server, 0).await;
        still_pending("it is gone", &mut Box::pin(consumer.take())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_crashes_after_the_ack_has_taken_the_item_with_it() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let work = server.spawn(&one, {
        let client = one.clone();
        async move {
            let items = queue(&client).consumer().take().await.expect("an item").ack().await.expect("acked");
            std::future::pending::<()>().await;
            drop(items);
        }
    });
    server.until(|| names(&server).is_empty()).await;
    server.freeze_client(&one);
    still_pending("it is not redelivered", &mut Box::pin(queue(&two).consumer().take())).await;
    drop(work);
}

#[tokio::test(start_paused = true)]
async fn an_ack_that_is_refused_returns_nothing_and_the_item_comes_again() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let delivery = taken(&queue(&one).consumer()).await;
    server.expire_session(&one);
    within("it is too late", T, delivery.ack()).await.expect_err("the session is over");
    let again = within("it comes again", T, queue(&two).consumer().take()).await.expect("an item");
    assert_eq!((again.item().as_str(), again.attempt()), ("a", 2));
    acked(again).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_after_the_ack_is_told_of_and_its_item_is_gone() {
    let (server, one, two) = setup().await;
    let producer = filled(&two, &["a", "b"]).await;
    let consumer = builder(&one).ack_mode(AckMode::BeforeHandling).build().expect("a queue").consumer();
    let mut events = consumer.events();
    let seen = std::sync::Mutex::new(Vec::new());
    let handler = |item: String, claim: ClaimHandle| {
        assert!(!claim.is_held(), "it is settled");
        assert!(!names(&server).contains(&claim.name().to_owned()), "it has left the queue");
        seen.lock().expect("no panic").push(item.clone());
        async move { if item == "a" { Err("no such street") } else { Ok(()) } }
    };
    let work = consumer.consume(1, handler);
    let stop = async {
        put(&producer, &["c"]).await;
        // The handler is called only after the item has left the queue.
        server.until(|| seen.lock().expect("no panic").len() == 3).await;
        consumer.close().await;
    };
    within("all are handled", T, futures::future::join(work, stop)).await.0.expect("closed");
    assert_eq!(*seen.lock().expect("no panic"), ["a", "b", "c"]);
    let told = within("it is told", SOON, events.next()).await;
    let expected = Event::Dropped { item: "queue-0000000000".into(), reason: "no such street".into() };
    assert_eq!(told, Some(expected));
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_item_whose_handler_is_dropped_is_lost_and_that_is_told() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = builder(&one).ack_mode(AckMode::BeforeHandling).build().expect("a queue").consumer();
    let mut events = consumer.events();
    let handler = |_: String, _: ClaimHandle| std::future::pending::<Result<(), std::io::Error>>();
    let mut work = Box::pin(consumer.consume(1, handler));
    still_pending("it works", &mut work).await;
    server.until(|| names(&server).is_empty()).await;
    drop(work);
    let told = within("it is told", SOON, events.next()).await;
    let reason = "the handler was dropped before it had finished".into();
    assert_eq!(told, Some(Event::Dropped { item: "queue-0000000000".into(), reason }));
}
