//! The basic behaviour of a queue.

use futures::StreamExt;
use zookeeper_recipes::queue::{DistributedQueue, Error, Json, RawBytes, Utf8};
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{
    CLAIMS, PATH, PRODUCERS, acked, at_rest, builder, drained, filled, names, put, queue, setup, taken, texts,
};
use crate::fixture::{SOON, still_pending, within};

#[tokio::test(start_paused = true)]
async fn items_come_in_order_once_and_the_queue_is_empty_then() {
    let (server, one, two) = setup().await;
    let items: Vec<String> = (0..10).map(|number| format!("item {number}")).collect();
    let _producer = filled(&one, &items.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(texts(&server), items);
    let consumer = queue(&two).consumer();
    assert_eq!(drained(&consumer, 10).await, items);
    at_rest(&server, 0).await;
    still_pending("there is no more", &mut Box::pin(consumer.take())).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_take_gets_what_is_put_later_also_on_a_queue_that_does_not_exist_yet() {
    let server = TestingServer::start();
    let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    let consumer = queue(&two).consumer();
    for round in 0..3 {
        let mut waiting = Box::pin(consumer.take());
        still_pending("there is nothing", &mut waiting).await;
        let _producer = filled(&one, &[&format!("round {round}")]).await;
        let delivery = within("it comes", SOON, waiting).await.expect("an item");
        assert_eq!((delivery.item().as_str(), delivery.attempt()), (&*format!("round {round}"), 1));
        acked(delivery).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_hold_and_are_called_what_curators_are() {
    let (server, client, _) = setup().await;
    let producer = DistributedQueue::builder(&client, PATH, RawBytes).build().expect("a queue").producer();
    producer.put(b"a").await.expect("put");
    producer.put_many([&b"a"[..], b"bc", b""]).await.expect("put");
    assert_eq!(names(&server), ["queue-0000000000", "queue-0000000001"]);
    let hex = |name: &str| {
        let node = server.get(&format!("{PATH}/{name}")).expect("an item");
        node.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(hex("queue-0000000000"), "0001000101000000016102");
    assert_eq!(hex("queue-0000000001"), "0001000101000000016101000000026263010000000002");
    assert_eq!(server.stat(&format!("{PATH}/queue-0000000000")).expect("it exists").ephemeral_owner, 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_a_node_of_the_session_and_names_the_consumer() {
    let (server, one, two) = setup().await;
    let _producer = filled(&one, &["a"]).await;
    let consumer = queue(&two).consumer();
    let delivery = taken(&consumer).await;
    let path = format!("{CLAIMS}/{}", delivery.name());
    assert_eq!(server.stat(&path).expect("it exists").ephemeral_owner, two.session_id().expect("a session"));
    assert_eq!(server.get(&path).expect("it exists").len(), 36, "a uuid");
    assert!(delivery.is_held());
    let fenced = two.transaction().check(&delivery.fence()).set_data("/queues", "x", None).commit().await;
    fenced.expect("it is held");
    let fence = delivery.fence();
    acked(delivery).await;
    let late = two.transaction().check(&fence).set_data("/queues", "y", None).commit().await;
    assert_eq!(late.expect_err("it is settled").kind(), zookeeper_recipes::ErrorKind::Fenced);
}

#[tokio::test(start_paused = true)]
async fn what_is_put_together_comes_together() {
    let (server, one, two) = setup().await;
    let producer = queue(&one).producer();
    producer.put_many(["a", "b", "c"]).await.expect("put");
    producer.put("d").await.expect("put");
    assert_eq!(names(&server).len(), 2);
    let consumer = queue(&two).consumer();
    let delivery = taken(&consumer).await;
    assert_eq!(delivery.items(), ["a", "b", "c"]);
    acked(delivery).await;
    assert_eq!(drained(&consumer, 1).await, ["d"]);
    // A node without items is nothing to deliver.
    producer.put_many([""; 0]).await.expect("put");
    put(&producer, &["e"]).await;
    assert_eq!(drained(&consumer, 1).await, ["e"]);
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_item_put_back_keeps_its_name_and_place_and_counts_what_failed() {
    let (server, one, two) = setup().await;
    let _producer = filled(&one, &["a", "b"]).await;
    let consumer = builder(&two).prefetch(0).build().expect("a queue").consumer();
    let mut named = Vec::new();
    for (round, attempt) in [1, 2, 2].into_iter().enumerate() {
        let delivery = taken(&consumer).await;
        assert_eq!((delivery.item().as_str(), delivery.attempt()), ("a", attempt));
        named.push(delivery.name().to_owned());
        match round {
            0 => delivery.nack().await.expect("put back"),
            _ => drop(delivery),
        }
    }
    assert!(named.iter().all(|name| *name == named[0]), "{named:?}");
    assert_eq!(drained(&consumer, 2).await, ["a", "b"]);
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_deliveries_ends_when_the_consumer_is_closed() {
    let (_, one, two) = setup().await;
    let _producer = filled(&one, &["a", "b"]).await;
    let consumer = queue(&two).consumer();
    let mut deliveries = consumer.deliveries();
    for expected in ["a", "b"] {
        let delivery = within("it comes", SOON, deliveries.next()).await.expect("open").expect("an item");
        assert_eq!(delivery.item(), expected);
        acked(delivery).await;
    }
    consumer.close().await;
    assert!(within("it ends", SOON, deliveries.next()).await.is_none());
    assert!(matches!(consumer.take().await, Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_ahead_stays_claimed_until_it_is_taken_or_the_consumer_goes() {
    let (server, one, two) = setup().await;
    let _producer = filled(&one, &["a", "b", "c", "d"]).await;
    let consumer = builder(&one).prefetch(2).build().expect("a queue").consumer();
    tokio::time::sleep(SOON).await;
    assert_eq!(server.children(CLAIMS), [""; 0], "no other client has asked");
    let held = taken(&consumer).await;
    server.until(|| server.children(CLAIMS).len() == 3).await;
    tokio::time::sleep(SOON * 600).await;
    assert_eq!(server.children(CLAIMS).len(), 3);
    let next = taken(&consumer).await;
    assert_eq!((next.item().as_str(), next.attempt()), ("b", 1), "it was claimed once");
    server.until(|| server.children(CLAIMS).len() == 4).await;
    drop(consumer);
    server.until(|| server.children(CLAIMS).len() == 2).await;
    assert!(held.is_held() && next.is_held());
    acked(held).await;
    acked(next).await;
    assert_eq!(drained(&queue(&two).consumer(), 2).await, ["c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_closed_consumer_has_given_everything_back_but_what_was_delivered() {
    let (server, one, _) = setup().await;
    let _producer = filled(&one, &["a", "b", "c"]).await;
    let consumer = builder(&one).prefetch(2).build().expect("a queue").consumer();
    let held = taken(&consumer).await;
    server.until(|| server.children(CLAIMS).len() == 3).await;
    within("it closes", SOON, consumer.close()).await;
    assert_eq!(server.children(CLAIMS), [held.name()]);
    within("it is closed", SOON, consumer.close()).await;
    acked(held).await;
    at_rest(&server, 2).await;
}

#[tokio::test(start_paused = true)]
async fn length_and_peek_tell_what_is_there_and_take_nothing() {
    let (server, one, two) = setup().await;
    let queue = queue(&one);
    assert_eq!((queue.len().await, queue.peek().await), (Ok(0), Ok(None)));
    let _producer = filled(&two, &["a", "b"]).await;
    assert_eq!(queue.len().await, Ok(2));
    assert_eq!(queue.peek().await, Ok(Some(vec!["a".to_owned()])));
    assert_eq!((names(&server).len(), server.children(CLAIMS).len()), (2, 0));
    let nowhere = DistributedQueue::builder(&one, "/nowhere", Utf8).build().expect("a good path");
    assert_eq!((nowhere.len().await, nowhere.peek().await), (Ok(0), Ok(None)));
}

#[tokio::test(start_paused = true)]
async fn a_producer_flushes_what_it_has_under_way_and_leaves_no_node_when_it_goes() {
    let (server, client, _) = setup().await;
    let producer = queue(&client).producer();
    for number in 0..200 {
        drop(producer.enqueue(format!("{number:03}")).await.expect("enqueued"));
    }
    within("all is put", SOON, producer.flush()).await.expect("put");
    assert_eq!(texts(&server), (0..200).map(|number| format!("{number:03}")).collect::<Vec<_>>());
    assert_eq!(server.children(PRODUCERS).len(), 1);
    // Enqueued items are put even without a flush.
    drop(producer.enqueue("last").await.expect("enqueued"));
    drop(producer);
    server.until(|| names(&server).len() == 201 && server.children(PRODUCERS).is_empty()).await;
    let producer = filled(&client, &["more"]).await;
    within("it closes", SOON, producer.close()).await.expect("put");
    assert_eq!(server.children(PRODUCERS), [""; 0]);
    assert!(matches!(producer.put("late").await, Err(Error::Closed { .. })));
    within("it is closed", SOON, producer.close()).await.expect("put");
    assert_eq!(names(&server).len(), 202);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_ends_puts_and_takes() {
    let (_, client, _) = setup().await;
    let (queue, producer) = (queue(&client), filled(&client, &[]).await);
    let consumer = queue.consumer();
    let mut waiting = Box::pin(consumer.take());
    still_pending("there is nothing", &mut waiting).await;
    client.close().await.expect("closed");
    assert!(matches!(within("it ends", SOON, waiting).await, Err(Error::Closed { .. })));
    assert!(matches!(within("it ends", SOON, producer.put("a")).await, Err(Error::Closed { .. })));
    assert!(matches!(within("it ends", SOON, producer.flush()).await, Ok(())));
    assert!(matches!(queue.len().await, Err(Error::Closed { .. })));
    within("it closes", SOON, consumer.close()).await;
    within("it closes", SOON, producer.close()).await.expect("nothing was left");
}

#[tokio::test(start_paused = true)]
async fn json_is_what_it_says() {
    let (server, client, _) = setup().await;
    let queue = DistributedQueue::builder(&client, PATH, Json::<(String, u32)>::new()).build().expect("a queue");
    queue.producer().put(("a".to_owned(), 7)).await.expect("put");
    assert_eq!(texts(&server), [r#"["a",7]"#]);
    let delivery = within("it comes", SOON, queue.consumer().take()).await.expect("an item");
    assert_eq!(delivery.item(), &("a".to_owned(), 7));
}
