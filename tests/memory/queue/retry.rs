//! Items that failed are not delivered again before their time, to no consumer.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use zookeeper_recipes::queue::{ClaimHandle, Error};
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::{CreateMode, RetryPolicy};

use super::fixture::{
    CLAIMS, PATH, acked, at_rest, builder, drained, filled, make_directories, names, put, queue, setup, taken,
};
use crate::fixture::{SOON, T, requests, still_pending, within};

const LATER: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn an_item_put_back_for_later_comes_later_to_all_also_if_who_returned_it_is_gone() {
    for ending in ["stays", "is closed", "has lost its session", "is a new process"] {
        let (server, one, two) = setup().await;
        let _producer = filled(&one, &["a", "b"]).await;
        let (consumer, other) = (queue(&two).consumer(), queue(&one).consumer());
        let began = Instant::now();
        taken(&consumer).await.nack_after(LATER).await.expect("put back");
        match ending {
            "stays" => {}
            "is closed" => consumer.close().await,
            "has lost its session" => drop(server.expire_session(&two)),
            _ => two.close().await.expect("closed"),
        }
        assert_eq!(queue(&one).peek().await, Ok(Some(vec!["b".to_owned()])));
        assert_eq!(drained(&other, 1).await, ["b"], "it holds no other item up");
        let later = server.client().await.expect("a client");
        let takes = [other, queue(&later).consumer(), consumer].map(|consumer| async move { consumer.take().await });
        let mut takes: Vec<_> = takes.into_iter().map(Box::pin).collect();
        if ending != "stays" && ending != "has lost its session" {
            takes.pop();
        }
        let (delivery, _, _) = within("its time comes", LATER, futures::future::select_all(takes)).await;
        let delivery = delivery.expect("an item");
        let took = began.elapsed();
        assert!(took >= LATER && took < LATER + SOON, "{ending}: {took:?}");
        assert_eq!((delivery.item().as_str(), delivery.attempt()), ("a", 2), "{ending}");
        acked(delivery).await;
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_consumers_keep_to_the_retry_delay_of_a_handler() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let policy = RetryPolicy::forever(LATER);
    let consumers = [&one, &two].map(|client| builder(client).retry_delay(policy.clone()).build().expect("a queue"));
    let consumers = consumers.map(|queue| queue.consumer());
    let (told, mut times) = tokio::sync::mpsc::unbounded_channel();
    let handler = |_: String, claim: ClaimHandle| {
        told.send((claim.attempt(), Instant::now())).expect("the test listens");
        async move { if claim.attempt() < 4 { Err("not today") } else { Ok(()) } }
    };
    let stop = async {
        server.until(|| names(&server).is_empty()).await;
        for consumer in &consumers {
            consumer.close().await;
        }
    };
    let work = futures::future::join_all(consumers.iter().map(|consumer| consumer.consume(1, handler)));
    within("handled", LATER * 5, futures::future::join(work, stop)).await;
    let times: Vec<_> = std::iter::from_fn(|| times.recv().now_or_never().flatten()).collect();
    assert_eq!(times.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(times.windows(2).all(|two| two[1].1 - two[0].1 >= LATER), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delay_costs_no_request_and_another_consumer_one_read() {
    let (server, one, two) = setup().await;
    let _producer = filled(&one, &["a", "b"]).await;
    let consumer = queue(&two).consumer();
    drained(&consumer, 1).await;
    let held = taken(&consumer).await;
    let other = queue(&one).consumer();
    let mut waiting = Box::pin(other.take());
    still_pending("it is claimed", &mut waiting).await;
    server.clear_records();
    held.nack_after(T * 50).await.expect("put back");
    still_pending("it is delayed", &mut waiting).await;
    assert_eq!(requests(&server), [Operation::Multi, Operation::GetData]);
    server.clear_records();
    assert!(tokio::time::timeout(T * 49, &mut waiting).await.is_err());
    assert_eq!(requests(&server), [], "it is not read again and again");
    let delivery = within("its time comes", T, waiting).await.expect("an item");
    assert_eq!(requests(&server), [Operation::GetData, Operation::Multi]);
    acked(delivery).await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_whose_answer_is_lost_is_kept_to() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let began = Instant::now();
        let held = taken(&queue(&one).consumer()).await;
        server.lose_next_reply(&one, Operation::Multi, loss);
        within("it is returned", T, held.nack_after(LATER)).await.expect("known");
        let delivery = within("its time comes", LATER + T, queue(&two).consumer().take()).await.expect("an item");
        assert_eq!((delivery.attempt(), began.elapsed() >= LATER), (2, true), "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_whose_future_is_dropped_is_kept_to() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let began = Instant::now();
    let held = taken(&queue(&one).consumer()).await;
    assert!(held.nack_after(LATER).now_or_never().is_none());
    at_rest(&server, 1).await;
    acked(within("its time comes", LATER + T, queue(&two).consumer().take()).await.expect("an item")).await;
    assert!(began.elapsed() >= LATER);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_stopped_beyond_the_time_of_an_item_takes_it_when_it_resumes() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    taken(&queue(&two).consumer()).await.nack_after(LATER).await.expect("put back");
    let consumer = queue(&one).consumer();
    let taking = server.spawn(&one, async move { consumer.take().await });
    tokio::time::sleep(T).await;
    server.freeze_client(&one);
    tokio::time::sleep(LATER * 2).await;
    server.thaw_client(&one);
    let delivery = within("it resumes", T * 2, taking).await.expect("an end").expect("an item");
    assert_eq!(delivery.attempt(), 2);
    acked(delivery).await;
}

/// A record that an earlier version of this library wrote, one that it does not know, and a time that someone wrote.
#[tokio::test(start_paused = true)]
async fn records_of_other_versions_and_edits_by_hand_are_understood() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    taken(&consumer).await.nack_after(T * 360).await.expect("put back");
    let other = queue(&two).consumer();
    let mut waiting = Box::pin(other.take());
    still_pending("it is delayed", &mut waiting).await;
    let path = format!("{PATH}/{}", names(&server)[0]);
    let node = String::from_utf8(server.get(&path).expect("an item")).expect("text");
    let without: String = node.split_inclusive('\n').filter(|line| !line.starts_with("retry: ")).collect();
    assert_ne!(without, node);
    server.set_data_by_hand(&path, format!("{without}more: 5\n")).expect("it exists");
    let delivery = within("it has no delay any more", SOON, waiting).await.expect("an item");
    // The edit counts.
    assert_eq!(delivery.attempt(), 3);
    let kept = String::from_utf8(server.get(&path).expect("an item")).expect("text");
    assert!(kept.ends_with("more: 5\n"), "a claim keeps what it does not know: {kept}");
    acked(delivery).await;
}

/// The machine of the consumer that returned it is a year ahead, and a person wrote other times.
#[tokio::test(start_paused = true)]
async fn a_time_in_a_record_that_is_far_too_late_parks_no_item() {
    for (line, first, last) in [
        ("retry: 9000000000000\ndelay: 60000\n", LATER, LATER + SOON),
        ("retry: 9000000000000\ndelay: 9000000000000\n", Duration::ZERO, SOON),
        ("retry: 9000000000000\n", Duration::ZERO, SOON),
        ("retry: 1\ndelay: 60000\n", Duration::ZERO, SOON),
    ] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        taken(&queue(&one).consumer()).await.nack_after(T * 360).await.expect("put back");
        let path = format!("{PATH}/{}", names(&server)[0]);
        let node = String::from_utf8(server.get(&path).expect("an item")).expect("text");
        assert_eq!(node.lines().filter(|line| line.starts_with("retry: ") || line.starts_with("delay: ")).count(), 2);
        let other = |line: &&str| !line.starts_with("retry: ") && !line.starts_with("delay: ");
        let node: String = node.split_inclusive('\n').filter(other).collect();
        server.set_data_by_hand(&path, format!("{node}{line}")).expect("it exists");
        let began = Instant::now();
        let delivery = within("its time comes", LATER + T, queue(&two).consumer().take()).await.expect("an item");
        assert!((first..last).contains(&began.elapsed()), "{line}: {:?}", began.elapsed());
        acked(delivery).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_more_than_30_days_is_refused_or_cut_and_the_item_returned() {
    let days = |days: u64| Duration::from_secs(days * 24 * 3_600);
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    let error = taken(&consumer).await.nack_after(Duration::MAX).await.expect_err("it is refused");
    assert!(matches!(error, Error::InvalidOption { .. }) && error.to_string().contains("30 days"), "{error}");
    let held = taken(&consumer).await;
    assert_eq!(held.attempt(), 1, "as after a drop");
    held.release().await.expect("returned");
    let patient = builder(&one).retry_delay(RetryPolicy::forever(days(90))).build().expect("a queue").consumer();
    let handling = patient.consume(1, |_: String, _| async { Err("not today") });
    let _ = tokio::time::timeout(T, handling).await;
    let path = format!("{PATH}/{}", names(&server)[0]);
    let node = String::from_utf8(server.get(&path).expect("an item")).expect("text");
    assert!(node.contains(&format!("delay: {}\n", days(30).as_millis())), "{node}");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_changed_by_hand_applies_to_all_consumers() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    taken(&consumer).await.nack_after(T * 360).await.expect("put back");
    let mut waiting = Box::pin(consumer.take());
    still_pending("it is delayed", &mut waiting).await;
    let path = format!("{PATH}/{}", names(&server)[0]);
    let node = String::from_utf8(server.get(&path).expect("an item")).expect("text");
    let without: String = node.split_inclusive('\n').filter(|line| !line.starts_with("retry: ")).collect();
    server.set_data_by_hand(&path, without).expect("it exists");
    acked(within("it has no delay any more", SOON, waiting).await.expect("an item")).await;
}

#[tokio::test(start_paused = true)]
async fn many_items_that_wait_for_their_retry_hold_up_no_reconnect() {
    let (server, one, two) = setup().await;
    let items: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let producer = filled(&one, &items.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let handing_back = queue(&one).consumer();
    for _ in 0..300 {
        taken(&handing_back).await.nack_after(T * 360).await.expect("put back");
    }
    let consumer = queue(&two).consumer();
    still_pending("all are delayed", &mut Box::pin(consumer.take())).await;
    for reconnect in [true, false] {
        if reconnect {
            server.disconnect(&two);
        } else {
            server.expire_session(&two);
        }
        server.clear_records();
        put(&producer, &["good"]).await;
        acked(within("it is taken", T * 2, consumer.take()).await.expect("an item")).await;
        let reads = requests(&server).into_iter().filter(|operation| *operation == Operation::GetData).count();
        assert!(reads < 5, "{reads}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_without_room_for_its_time_is_delayed_for_the_consumer_that_returned_it() {
    let server = zookeeper_recipes::testing::TestingServer::start();
    let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    make_directories(&server);
    let length: u32 = 0xf_ffff - 3_000;
    let node = [&[0, 1, 0, 1, 1][..], &length.to_be_bytes(), &vec![b'x'; length as usize], &[2]].concat();
    server.create_by_hand(&format!("{PATH}/queue-"), node, CreateMode::PersistentSequential).expect("a new node");
    let consumer = queue(&one).consumer();
    taken(&consumer).await.nack_after(LATER).await.expect("put back");
    still_pending("it is delayed here", &mut Box::pin(consumer.take())).await;
    acked(taken(&queue(&two).consumer()).await).await;
    assert_eq!(server.children(CLAIMS), [""; 0]);
}
