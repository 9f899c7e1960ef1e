//! Items that are put with a time.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::queue::{Error, Event};
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};

use super::fixture::{
    CLAIMS, PATH, acked, at_rest, builder, drained, filled, make_directories, names, put, queue, setup,
};
use crate::fixture::{SOON, T, requests, still_pending, within};

const LATER: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn an_item_comes_when_its_delay_is_over_and_holds_no_other_up() {
    for batched in [false, true] {
        let (server, one, two) = setup().await;
        let producer = queue(&one).producer();
        let (consumer, began) = (queue(&two).consumer(), Instant::now());
        if batched {
            drop(producer.after(LATER).enqueue("late").await.expect("enqueued"));
            drop(producer.enqueue("plain").await.expect("enqueued"));
            producer.at(server.time_of_day() + LATER / 2).put_many(["soon", "too"]).await.expect("put");
        } else {
            producer.put_after("late", LATER).await.expect("put");
            put(&producer, &["plain"]).await;
            producer.put_at("soon", server.time_of_day() + LATER / 2).await.expect("put");
        }
        assert_eq!(drained(&consumer, 1).await, ["plain"]);
        let mut waiting = Box::pin(consumer.take());
        still_pending("nothing is due", &mut waiting).await;
        let next = within("it is due", LATER, waiting).await.expect("an item");
        assert_eq!((next.item().as_str(), next.items().len()), ("soon", if batched { 2 } else { 1 }));
        let took = began.elapsed();
        assert!(took >= LATER / 2 && took < LATER / 2 + SOON, "{took:?}");
        acked(next).await;
        let next = within("it is due", LATER, consumer.take()).await.expect("an item");
        assert_eq!((next.item().as_str(), next.attempt()), ("late", 1));
        assert!(began.elapsed() >= LATER && began.elapsed() < LATER + SOON, "{:?}", began.elapsed());
        acked(next).await;
        at_rest(&server, 0).await;
    }
}

/// The names are those of Curator's `DistributedDelayQueue`.
#[tokio::test(start_paused = true)]
async fn times_are_in_the_names_as_curator_writes_them() {
    use std::time::{Duration, UNIX_EPOCH};
    let start = UNIX_EPOCH + Duration::from_millis(1_785_000_000_000);
    let server = TestingServer::builder().starts_at(start).start();
    make_directories(&server);
    let client = server.client().await.expect("a client");
    let producer = queue(&client).producer();
    producer.put_at("a", start).await.expect("put");
    producer.put_at("b", start + Duration::from_nanos(1)).await.expect("put");
    assert_eq!(names(&server), ["queue-|19F9A4A7A00|0000000000", "queue-|19F9A4A7A01|0000000001"]);
    producer.put_after("c", LATER).await.expect("put");
    let time = i64::from_str_radix(&names(&server)[2]["queue-|".len()..][..11], 16).expect("a time");
    let now = server.time_of_day().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    assert!((now - 20..=now).contains(&(time - 60_000)), "{time} at {now}");
    assert_eq!(queue(&client).peek().await, Ok(Some(vec!["a".to_owned()])));
}

#[tokio::test(start_paused = true)]
async fn delayed_items_are_put_once_in_as_few_requests_as_others() {
    let (server, one, two) = setup().await;
    let producer = filled(&one, &["first"]).await;
    server.clear_records();
    for number in 0..640 {
        drop(producer.after(LATER).enqueue(number.to_string()).await.expect("enqueued"));
    }
    within("all is put", SOON, producer.flush()).await.expect("put");
    let sent = requests(&server);
    assert!(sent.iter().all(|operation| *operation == Operation::Multi), "{sent:?}");
    assert!(sent.len() <= 640 / 64 + 2, "{} for 640 items", sent.len());
    for loss in [Loss::Applied, Loss::NotApplied] {
        server.lose_next_reply(&one, Operation::Multi, loss);
        within("it is put", T, producer.put_after("last", Duration::ZERO)).await.expect("known");
    }
    assert_eq!(names(&server).len(), 643);
    let consumer = queue(&two).consumer();
    assert_eq!(drained(&consumer, 3).await, ["last", "last", "first"], "what is due comes before the others");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_asks_for_nothing_while_it_waits_for_a_time_and_takes_it_for_two_requests() {
    let (server, one, two) = setup().await;
    let producer = filled(&one, &["a"]).await;
    let consumer = queue(&two).consumer();
    drained(&consumer, 1).await;
    for far in [T * 30, T * 40, T * 100_000] {
        producer.put_after("b", far).await.expect("put");
    }
    let mut waiting = Box::pin(consumer.take());
    still_pending("it is delayed", &mut waiting).await;
    server.clear_records();
    assert!(tokio::time::timeout(T * 29, &mut waiting).await.is_err());
    assert_eq!(requests(&server), []);
    let delivery = within("it is due", T * 2, waiting).await.expect("an item");
    assert_eq!(requests(&server), [Operation::GetData, Operation::Multi]);
    acked(delivery).await;
}

/// Curator's testSimple and testSorting: while they become due, and if all of them are due before there is a consumer.
#[tokio::test(start_paused = true)]
async fn items_that_are_due_come_by_their_times() {
    for waits in [true, false] {
        let (server, one, two) = setup().await;
        let producer = queue(&one).producer();
        let mut delays: Vec<u64> = (0..100).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut delays);
        let first = server.time_of_day() + SOON;
        for delay in &delays {
            let time = first + Duration::from_millis(delay * 10);
            producer.put_at(format!("{delay:03}"), time).await.expect("put");
        }
        delays.sort_unstable();
        let consumer = queue(&two).consumer();
        if waits {
            tokio::time::sleep(SOON * 3).await;
        }
        let expected: Vec<_> = delays.iter().map(|delay| format!("{delay:03}")).collect();
        assert_eq!(drained(&consumer, 100).await, expected);
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_becomes_due_is_taken_once_by_one_of_many_consumers() {
    let (server, one, two) = setup().await;
    let producer = queue(&one).producer();
    let consumers: Vec<_> = (0..8).map(|nth| queue(if nth % 2 == 0 { &one } else { &two }).consumer()).collect();
    let takes = futures::future::select_all(consumers.iter().map(|consumer| Box::pin(consumer.take())));
    producer.put_after("a", LATER).await.expect("put");
    let (delivery, _, others) = within("it is due", LATER + SOON, takes).await;
    acked(delivery.expect("an item")).await;
    let mut others = futures::future::select_all(others);
    still_pending("there is one item", &mut others).await;
    drop(others);
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn delayed_items_survive_expiries_freezes_and_deletions_by_hand() {
    let (server, one, two) = setup().await;
    let producer = queue(&two).producer();
    for (item, delay) in [("deleted", LATER / 2), ("a", LATER), ("b", LATER * 2)] {
        producer.put_after(item, delay).await.expect("put");
    }
    let consumer = queue(&one).consumer();
    let mut waiting = Box::pin(consumer.take());
    still_pending("nothing is due", &mut waiting).await;
    server.delete_by_hand(&format!("{PATH}/{}", names(&server)[0])).expect("it exists");
    server.expire_session(&one);
    let delivery = within("it is due", LATER + T, waiting).await.expect("an item");
    assert_eq!(delivery.item(), "a");
    // The process stops for a minute, in which the next one becomes due.
    server.freeze_client(&one);
    std::mem::forget(delivery);
    tokio::time::sleep(LATER + T).await;
    let other = queue(&two).consumer();
    let mut items = drained(&other, 2).await;
    items.sort_unstable();
    assert_eq!(items, ["a", "b"]);
    server.thaw_client(&one);
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_delayed_item_that_fails_keeps_its_place_and_has_a_retry_delay() {
    let (server, one, two) = setup().await;
    let producer = queue(&one).producer();
    producer.put_after("a", SOON).await.expect("put");
    let consumer = builder(&two).max_deliveries(2).build().expect("a queue").consumer();
    let held = within("it is due", T, consumer.take()).await.expect("an item");
    let name = held.name().to_owned();
    let began = Instant::now();
    held.nack_after(LATER).await.expect("returned");
    put(&producer, &["b"]).await;
    assert_eq!(drained(&consumer, 1).await, ["b"]);
    let held = within("it is due", LATER + T, queue(&one).consumer().take()).await.expect("an item");
    assert!(began.elapsed() >= LATER);
    assert_eq!((held.name(), held.attempt()), (&*name, 2));
    held.reject("no").await.expect("rejected");
    // As a dead letter that is retried, it has no time.
    let queue = queue(&one);
    let letters = queue.dead_letters().await.expect("letters");
    assert_eq!(letters[0].item, name);
    queue.retry(&letters[0]).await.expect("retried");
    assert_eq!(drained(&consumer, 1).await, ["a"]);
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_beyond_all_names_is_refused_and_puts_nothing() {
    let (server, one, _) = setup().await;
    let producer = queue(&one).producer();
    for put in [producer.put_after("a", Duration::MAX).boxed(), producer.after(Duration::MAX).put("a").boxed()] {
        let error = put.await.expect_err("it is refused");
        assert!(matches!(error, Error::InvalidOption { .. }) && error.to_string().contains("2526"), "{error}");
    }
    assert_eq!(names(&server), [""; 0]);
    let (with_id, with_both) = (producer.id("x"), producer.priority(1).id("x"));
    let both = [with_id.put_after("a", LATER).boxed(), with_both.put("a").boxed()];
    for put in both {
        let error = put.await.expect_err("it is refused");
        assert!(matches!(error, Error::InvalidOption { .. }) && error.to_string().contains("only one"), "{error}");
    }
    assert_eq!(names(&server), [""; 0]);
    producer.after(Duration::MAX).put_after("a", LATER).await.expect("the last time counts");
}

/// What Curator's consumers of such a queue do, and what is in no format of Curator's.
#[tokio::test(start_paused = true)]
async fn locks_of_curators_are_respected_and_other_names_are_skipped() {
    use futures::StreamExt;
    let (server, one, two) = setup().await;
    let other = format!("{PATH}/queue-x0000000009");
    server.create_by_hand(&other, "", CreateMode::Persistent).expect("a new node");
    let producer = queue(&two).producer();
    producer.put_after("a", Duration::ZERO).await.expect("put");
    producer.put_after("b", Duration::ZERO).await.expect("put");
    let name = names(&server).into_iter().find(|name| name.ends_with("|0000000001")).expect("the first item");
    server.create_by_hand(&format!("{CLAIMS}/{name}"), "", CreateMode::Persistent).expect("a new node");
    let consumer = builder(&one).claims_path(CLAIMS).build().expect("a queue").consumer();
    let mut events = consumer.events();
    assert_eq!(drained(&consumer, 1).await, ["b"], "the first one is locked");
    let told = within("told", SOON, events.next()).await;
    assert_eq!(told, Some(Event::Skipped { node: "queue-x0000000009".to_owned() }));
}
