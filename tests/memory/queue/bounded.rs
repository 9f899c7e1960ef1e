//! A queue that may hold only so many items.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::queue::Error;
use zookeeper_recipes::testing::{Operation, TestingServer};

use super::fixture::{PATH, builder, drained, names, put, queue, setup, taken, texts};
use crate::fixture::{SOON, T, requests, still_pending, timed, within};

/// Curator's TestBoundedDistributedQueue.testSimple.
#[tokio::test(start_paused = true)]
async fn a_put_waits_for_room_and_continues_when_there_is_some() {
    let (server, one, two) = setup().await;
    let producer = builder(&one).max_items(1).build().expect("a queue").producer();
    put(&producer, &["a"]).await;
    let mut waiting = Box::pin(producer.put("b"));
    still_pending("it is full", &mut waiting).await;
    assert_eq!(texts(&server), ["a"]);
    let consumer = queue(&two).consumer();
    assert_eq!(drained(&consumer, 1).await, ["a"]);
    within("there is room", SOON, waiting).await.expect("put");
    assert_eq!(drained(&consumer, 1).await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_put_with_a_deadline_says_that_it_is_full_and_has_put_nothing() {
    let (server, one, two) = setup().await;
    let producer = builder(&one).max_items(2).build().expect("a queue").producer();
    put(&producer, &["a", "b"]).await;
    let (took, outcome) = timed(producer.put_timeout("c", Duration::from_secs(3))).await;
    let error = outcome.expect_err("it is full");
    assert!(matches!(error, Error::Full { limit: 2, .. }) && error.kind() == ErrorKind::TimedOut, "{error}");
    assert!(error.is_retryable() && took <= Duration::from_millis(3_010), "{took:?}");
    assert_eq!(texts(&server), ["a", "b"]);
    // Later all arrive in order.
    let later = tokio::spawn({
        let producer = producer.clone();
        async move {
            for item in ["c", "d", "e"] {
                producer.put_timeout(item, T).await.expect("there is room in time");
            }
        }
    });
    assert_eq!(drained(&queue(&two).consumer(), 5).await, ["a", "b", "c", "d", "e"]);
    later.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn a_put_that_waits_for_room_is_released_by_close() {
    let (server, one, _) = setup().await;
    let producer = builder(&one).max_items(1).build().expect("a queue").producer();
    put(&producer, &["a"]).await;
    let blocked = producer.clone();
    let mut waiting = Box::pin(blocked.put("b"));
    still_pending("it is full", &mut waiting).await;
    within("it closes", SOON, producer.close()).await.expect("put");
    assert!(matches!(within("it is released", SOON, waiting).await, Err(Error::Closed { .. })));
    assert_eq!(texts(&server), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn several_producers_go_over_the_bound_by_little() {
    let (server, one, two) = setup().await;
    let queue = builder(&one).max_items(10).build().expect("a queue");
    let producers: Vec<_> = (0..4).map(|_| queue.producer()).collect();
    let putting = join_all(producers.iter().enumerate().map(|(who, producer)| async move {
        for number in 0..50 {
            producer.put(format!("{who} {number}")).await.expect("put");
        }
    }));
    let consumer = super::fixture::queue(&two).consumer();
    let mut most = 0;
    let consuming = async {
        for _ in 0..200 {
            most = most.max(names(&server).len());
            taken(&consumer).await.ack().await.expect("acked");
        }
    };
    within("all are put and taken", T * 6, futures::future::join(putting, consuming)).await;
    assert!((10..=40).contains(&most), "{most}");
}

/// Each has counted when there was room for all it has under way, and no more than one batch.
#[tokio::test(start_paused = true)]
async fn twenty_producers_go_over_the_bound_by_no_more_than_a_batch_each() {
    const MOST: usize = 1_000;
    for seed in 0..10 {
        let latency = Duration::from_millis(1)..=Duration::from_millis(8);
        let server = TestingServer::builder().seed(seed).latency(latency).start();
        let clients = join_all((0..4).map(|_| server.client())).await;
        let queues = clients.iter().map(|client| builder(client.as_ref().expect("a client")).max_items(MOST).build());
        let queues: Vec<_> = queues.map(|queue| queue.expect("a queue")).collect();
        let producers: Vec<_> = (0..20).map(|who| queues[who % 4].producer()).collect();
        let putting = join_all(producers.iter().map(|producer| async {
            loop {
                drop(producer.enqueue("x").await.expect("enqueued"));
                tokio::task::yield_now().await;
            }
        }));
        assert!(tokio::time::timeout(T * 3, putting).await.is_err(), "it is full");
        let items = names(&server).len();
        assert!((MOST..=MOST + 19 * 64).contains(&items), "seed {seed}: {items}");
        println!("seed {seed}: {items} items");
    }
}

/// They look again soon enough, and what a look costs does not grow with the queue. While nothing changes, they send
/// nothing.
#[tokio::test(start_paused = true)]
async fn producers_that_wait_keep_the_queue_nearly_full_and_neither_list_nor_poll() {
    const TAKEN: usize = 2_000;
    // A request with its answer, without what TCP adds.
    const LOOK_BYTES: usize = 28 + 88;
    for (most, producers) in [(100, 1), (5_000, 1), (1_000, 20)] {
        let (server, one, _) = setup().await;
        let queue = builder(&one).max_items(most).build().expect("a queue");
        let putting = tokio::spawn(join_all((0..producers).map(|_| {
            let producer = queue.producer();
            async move {
                loop {
                    drop(producer.enqueue("x").await.expect("enqueued"));
                    tokio::task::yield_now().await;
                }
            }
        })));
        let items = || usize::try_from(server.stat(PATH).expect("it exists").num_children).expect("a number");
        server.until(|| items() >= most).await;
        // The longest delay is reached.
        tokio::time::sleep(SOON).await;
        let mut taken = 0..;
        let mut take = || {
            let next = taken.next().expect("no end");
            server.delete_by_hand(&format!("{PATH}/queue-{next:010}")).expect("it exists");
        };
        while items() > most {
            take();
        }
        server.clear_records();
        let (mut fewest, mut sum) = (most, 0);
        for _ in 0..TAKEN {
            take();
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(items() <= most + (producers - 1) * 64, "{}", items());
            (fewest, sum) = (fewest.min(items()), sum + items());
        }
        let sent = requests(&server);
        let looks = sent.iter().filter(|operation| **operation == Operation::Exists).count();
        let (average, bytes) = (sum / TAKEN, looks * LOOK_BYTES / TAKEN);
        let figures =
            format!("{producers} producers, at most {most}: {average} items, {fewest} at least; {bytes} bytes an item");
        println!("{figures}");
        assert!(average >= most - 20 && bytes <= 4_096, "{figures}");
        use Operation::{AddWatch, Exists, Multi, RemoveWatch};
        let is_small = |operation: &Operation| matches!(operation, Exists | Multi | AddWatch | RemoveWatch);
        assert!(sent.iter().all(is_small), "{sent:?}");
        // No consumer takes an item.
        tokio::time::sleep(SOON).await;
        server.clear_records();
        tokio::time::sleep(SOON * 50).await;
        assert_eq!(requests(&server), []);
        putting.abort();
    }
}

/// A place that becomes free is no herd: few of those that wait count the items.
#[tokio::test(start_paused = true)]
async fn of_many_producers_that_wait_few_count_the_items_when_one_is_taken() {
    const PRODUCERS: usize = 50;
    const TAKEN: usize = 100;
    let (server, one, two) = setup().await;
    let queue = builder(&one).max_items(3).build().expect("a queue");
    let putting = tokio::spawn(join_all((0..PRODUCERS).map(|_| {
        let producer = queue.producer();
        async move {
            loop {
                producer.put("x").await.expect("put");
            }
        }
    })));
    let items = || names(&server).len();
    server.until(|| items() >= 3).await;
    tokio::time::sleep(SOON).await;
    let consumer = super::fixture::queue(&two).consumer();
    // Those that were too many, at the beginning.
    for _ in 0..items() {
        taken(&consumer).await.ack().await.expect("acked");
        tokio::time::sleep(SOON / 10).await;
    }
    let (mut counts, mut most) = (0, 0);
    for place in 0..TAKEN {
        if place % 20 == 0 {
            // For longer than they wait for an event.
            tokio::time::sleep(Duration::from_secs(70)).await;
        }
        server.clear_records();
        taken(&consumer).await.ack().await.expect("acked");
        tokio::time::sleep(SOON / 10).await;
        assert!((3..=8).contains(&items()), "{} items", items());
        let now = requests(&server).iter().filter(|operation| **operation == Operation::Exists).count();
        (counts, most) = (counts + now, most.max(now));
    }
    println!("{counts} counts of {PRODUCERS} producers for {TAKEN} places, at most {most} for one");
    assert!(counts <= 5 * TAKEN && most <= PRODUCERS / 2, "{counts} counts, at most {most}");
    putting.abort();
}

/// Servers report nothing of a node that the client may not read.
#[tokio::test(start_paused = true)]
async fn a_producer_that_may_not_see_the_items_counts_them_after_a_while_and_then_regularly() {
    let (server, one, _) = setup().await;
    let producer = builder(&one).max_items(1).build().expect("a queue").producer();
    let mut patience = Duration::from_secs(61);
    for number in 0..3 {
        within("there is room", patience, producer.put("x")).await.expect("put");
        let mut waiting = Box::pin(producer.put("y"));
        if number > 0 {
            patience = Duration::from_secs(1);
        }
        let item = format!("{PATH}/queue-{:010}", 2 * number);
        server.deny(&item);
        still_pending("it is full", &mut waiting).await;
        server.delete_by_hand(&item).expect("an item");
        within("it is counted", patience, waiting).await.expect("put");
        server.delete_by_hand(&format!("{PATH}/queue-{:010}", 2 * number + 1)).expect("an item");
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_that_waits_for_room_survives_an_outage_and_the_end_of_its_session() {
    for ends in [false, true] {
        let (server, one, two) = setup().await;
        let producer = builder(&one).max_items(1).build().expect("a queue").producer();
        put(&producer, &["a"]).await;
        let mut waiting = Box::pin(producer.put("b"));
        still_pending("it is full", &mut waiting).await;
        if ends {
            server.expire_session(&one);
        }
        server.disconnect(&one);
        // What happens meanwhile is not reported.
        drained(&queue(&two).consumer(), 1).await;
        within("there is room", T, waiting).await.expect("put");
        assert_eq!(texts(&server), ["b"]);
    }
}

/// Answers to what was put and to the look for room come close together, in any order of those who wait for them.
#[tokio::test(start_paused = true)]
async fn one_producer_never_exceeds_the_bound_however_much_it_has_under_way() {
    for seed in 0..40 {
        let latency = Duration::ZERO..=Duration::from_millis(5);
        let server = TestingServer::builder().seed(seed).latency(latency).start();
        let client = server.client().await.expect("a client");
        let producer = builder(&client).max_items(500).build().expect("a queue").producer();
        let putting = async {
            for number in 0.. {
                drop(producer.enqueue(number.to_string()).await.expect("enqueued"));
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(T, putting).await.is_err(), "it is full");
        assert_eq!(names(&server).len(), 500, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bounded_put_that_waits_survives_a_lost_connection() {
    let (server, one, two) = setup().await;
    let producer = builder(&one).max_items(1).build().expect("a queue").producer();
    put(&producer, &["a"]).await;
    let mut waiting = Box::pin(producer.put("b"));
    still_pending("it is full", &mut waiting).await;
    server.disconnect(&one);
    still_pending("it is full", &mut waiting).await;
    server.expire_session(&one);
    still_pending("it is full", &mut waiting).await;
    drained(&queue(&two).consumer(), 1).await;
    within("there is room", T, waiting).await.expect("put");
}

#[tokio::test(start_paused = true)]
async fn a_put_that_no_server_answers_in_time_does_not_say_that_the_queue_is_full() {
    let (server, one, _) = setup().await;
    let producer = builder(&one).max_items(2).build().expect("a queue").producer();
    server.stop();
    let error = producer.put_timeout("a", Duration::from_secs(1)).await.expect_err("no answer");
    assert!(matches!(error, Error::Client { .. }) && error.kind() == ErrorKind::TimedOut, "{error}");
}

#[tokio::test(start_paused = true)]
async fn that_a_queue_was_full_before_a_put_began_does_not_make_it_full_now() {
    let (server, one, two) = setup().await;
    let producer = builder(&one).max_items(1).build().expect("a queue").producer();
    put(&producer, &["a"]).await;
    let limit = Duration::from_secs(1);
    assert!(matches!(producer.put_timeout("b", limit).await, Err(Error::Full { .. })));
    drained(&queue(&two).consumer(), 1).await;
    server.stop();
    let error = producer.put_timeout("b", limit).await.expect_err("no answer");
    assert!(matches!(error, Error::Client { .. }) && error.kind() == ErrorKind::TimedOut, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_came_before_its_future_was_dropped_is_told_by_flush() {
    let (server, one, _) = setup().await;
    let producer = queue(&one).producer();
    put(&producer, &["a"]).await;
    server.deny(PATH);
    let refused = producer.enqueue("b").await.expect("enqueued");
    tokio::time::sleep(SOON).await;
    drop(refused);
    let error = within("it is told", SOON, producer.flush()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
}
