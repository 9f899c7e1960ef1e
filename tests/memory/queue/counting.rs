//! Which deliveries count: those that failed, and those that ended with their sessions.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::queue::{ClaimHandle, Event};
use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{CLAIMS, PATH, acked, at_rest, builder, drained, filled, names, queue, setup, taken};
use crate::fixture::{SOON, T, within};

const MOST: u32 = 2;
/// More often than an item may fail.
const OFTEN: usize = 4 * MOST as usize;

#[tokio::test(start_paused = true)]
async fn what_is_released_or_dropped_or_claimed_ahead_is_never_buried() {
    for how in ["release", "drop", "take dropped", "claimed ahead, closed", "claimed ahead, dropped"] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a", "b", "c"]).await;
        let prefetch = if how.starts_with("claimed ahead") { 2 } else { 0 };
        let queue = builder(&one).max_deliveries(MOST).prefetch(prefetch).build().expect("a queue");
        for _ in 0..OFTEN {
            let consumer = queue.consumer();
            match how {
                "release" => taken(&consumer).await.release().await.expect("returned"),
                "take dropped" => {
                    let claimed = server.until(|| !server.children(CLAIMS).is_empty());
                    tokio::select! {
                        biased;
                        () = claimed => {}
                        _ = consumer.take() => {}
                    }
                }
                "drop" => drop(taken(&consumer).await),
                _ => {
                    let delivery = taken(&consumer).await;
                    server.until(|| server.children(CLAIMS).len() == 3).await;
                    delivery.release().await.expect("returned");
                    if how.ends_with("closed") {
                        consumer.close().await;
                    }
                }
            }
            drop(consumer);
            at_rest(&server, 3).await;
        }
        let consumer = queue.consumer();
        let next = taken(&consumer).await;
        assert_eq!((next.item().as_str(), next.attempt()), ("a", 1), "{how}");
        acked(next).await;
        assert_eq!(drained(&consumer, 2).await, ["b", "c"], "{how}");
        assert_eq!(queue.dead_letters().await, Ok(vec![]), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_interrupted_by_a_shutdown_or_by_the_connection_has_not_failed() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let queue = builder(&one).max_deliveries(MOST).grace_period(SOON / 10).build().expect("a queue");
    let consumer = queue.consumer();
    for round in 0..OFTEN {
        let begun = tokio::sync::Notify::new();
        let handler = |_: String, claim: ClaimHandle| {
            assert_eq!(claim.attempt(), 1);
            begun.notify_one();
            std::future::pending::<Result<(), std::io::Error>>()
        };
        let stop = async {
            begun.notified().await;
            if round % 2 == 1 {
                server.disconnect(&one);
                begun.notified().await;
            }
        };
        within("it stops", T * 3, consumer.consume_until(1, handler, stop)).await.expect("consumed");
        at_rest(&server, 1).await;
    }
    assert_eq!(drained(&consumer, 1).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn failures_and_deaths_count_between_releases_and_the_letter_has_the_handlers_error() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["poison", "good"]).await;
    let queue = builder(&one).max_deliveries(3).build().expect("a queue");
    let consumer = queue.consumer();
    taken(&consumer).await.release().await.expect("returned");
    let fails = |_: String, claim: ClaimHandle| async move {
        assert_eq!(claim.attempt(), 1);
        Err::<(), _>("no such\nstreet")
    };
    let failed = server
        .until(|| server.get(&format!("{PATH}/{}", names(&server)[0])).is_some_and(|node| node.ends_with(b"street\n")));
    within("it fails", SOON, consumer.consume_until(1, fails, failed)).await.expect("consumed");
    for attempt in 2..=3 {
        let consumer = queue.consumer();
        let mut delivery = within("it comes", T, consumer.take()).await.expect("an item");
        assert_eq!((delivery.item().as_str(), delivery.attempt()), ("poison", attempt));
        if attempt == 2 {
            delivery.release().await.expect("returned");
            delivery = taken(&consumer).await;
            assert_eq!(delivery.attempt(), 2, "a release does not count");
        }
        // The process dies with it.
        server.expire_session(&one);
        std::mem::forget(delivery);
    }
    let delivery = within("the next one comes", T, queue.consumer().take()).await.expect("an item");
    assert_eq!(delivery.item(), "good");
    acked(delivery).await;
    at_rest(&server, 0).await;
    let letter = queue.dead_letters().await.expect("letters").remove(0);
    let reason = "no such street (then it was claimed 2 times, up to the end of the session)";
    assert_eq!((letter.attempts, letter.reason.as_str()), (3, reason));
    assert_eq!(letter.items(&zookeeper_recipes::queue::Utf8), Ok(vec!["poison".to_owned()]));
    // The bytes that were put, without a record.
    assert_eq!(letter.data.len(), 4 + 5 + "poison".len() + 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_with_a_delivery_in_hand_counts() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["poison"]).await;
    let queue = builder(&one).max_deliveries(MOST).build().expect("a queue");
    let consumer = queue.consumer();
    for attempt in 1..=MOST {
        let consumer = consumer.clone();
        let worker = async move {
            let delivery = consumer.take().await.expect("an item");
            assert_ne!(delivery.attempt(), attempt, "it panics, as the attempt is that one");
        };
        within("it panics", SOON, tokio::spawn(worker)).await.expect_err("a panic");
    }
    server.until(|| names(&server).is_empty()).await;
    let letter = queue.dead_letters().await.expect("letters").remove(0);
    assert_eq!((letter.attempts, letter.reason.as_str()), (MOST, "the thread that handled it panicked"));
}

#[tokio::test(start_paused = true)]
async fn a_release_or_a_nack_whose_answer_is_lost_is_counted_once_or_not_at_all() {
    for (loss, nack) in
        [(Loss::Applied, false), (Loss::NotApplied, false), (Loss::Applied, true), (Loss::NotApplied, true)]
    {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let consumer = queue(&one).consumer();
        for round in 0..3 {
            let delivery = within("it comes", T, consumer.take()).await.expect("an item");
            assert_eq!(delivery.attempt(), if nack { 1 + round } else { 1 }, "{loss:?}");
            server.lose_next_reply(&one, Operation::Multi, loss);
            let settled = async { if nack { delivery.nack().await } else { delivery.release().await } };
            within("it is returned", T, settled).await.expect("known");
        }
        assert_eq!(drained(&consumer, 1).await, ["a"]);
        at_rest(&server, 0).await;
    }
}

/// As Curator's consumers requeue what has failed: as a new item with the same bytes.
#[tokio::test(start_paused = true)]
async fn a_copy_of_an_item_begins_without_failures() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    taken(&consumer).await.nack().await.expect("returned");
    at_rest(&server, 1).await;
    let path = format!("{PATH}/{}", names(&server)[0]);
    let node = server.get(&path).expect("an item");
    server.create_by_hand(&format!("{PATH}/queue-"), node, CreateMode::PersistentSequential).expect("a new node");
    server.delete_by_hand(&path).expect("it is there");
    let copy = taken(&consumer).await;
    assert_eq!((copy.item().as_str(), copy.attempt()), ("a", 1));
    copy.nack().await.expect("returned");
    assert_eq!(taken(&consumer).await.attempt(), 2);
}

/// One that another client has put: it must not grow until it cannot be claimed.
#[tokio::test(start_paused = true)]
async fn an_item_without_room_for_a_record_is_returned_and_counts() {
    let (server, one, _) = setup().await;
    let length: u32 = 0xf_ffff - 3_000;
    let node = [&[0, 1, 0, 1, 1][..], &length.to_be_bytes(), &vec![b'x'; length as usize], &[2]].concat();
    server
        .create_by_hand(&format!("{PATH}/queue-"), node.clone(), CreateMode::PersistentSequential)
        .expect("a new node");
    let consumer = queue(&one).consumer();
    for attempt in 1..=3 {
        let delivery = taken(&consumer).await;
        assert_eq!(delivery.attempt(), attempt);
        delivery.release().await.expect("returned");
        at_rest(&server, 1).await;
        assert_eq!(server.get(&format!("{PATH}/queue-0000000000")).expect("it is there").len(), node.len());
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_handler_is_told_of_with_its_attempt() {
    use futures::StreamExt;
    let (_server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    let mut events = consumer.events();
    let runs = AtomicUsize::new(0);
    for _ in 0..2 {
        let handler = |_: String, _: ClaimHandle| {
            runs.fetch_add(1, Relaxed);
            std::future::pending::<Result<(), std::io::Error>>()
        };
        assert!(tokio::time::timeout(SOON, consumer.consume(1, handler)).await.is_err(), "it runs");
        let told = within("told", SOON, events.next()).await;
        assert!(matches!(told, Some(Event::Interrupted { attempt: 1, claim_lost: false, .. })), "{told:?}");
    }
    assert_eq!(runs.load(Relaxed), 2);
}
