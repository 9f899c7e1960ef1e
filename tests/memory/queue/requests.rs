//! The requests of a queue.

use std::time::Duration;

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::testing::Operation;

use super::fixture::{CLAIMS, PATH, acked, at_rest, builder, drained, filled, queue, setup, taken};
use crate::fixture::{SOON, heartbeats_in_three_timeouts, requests, within};

#[tokio::test(start_paused = true)]
async fn a_put_costs_one_request() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &["first"]).await;
    server.clear_records();
    for _ in 0..20 {
        producer.put("a").await.expect("put");
    }
    assert_eq!(requests(&server), [Operation::Multi; 20]);
}

#[tokio::test(start_paused = true)]
async fn puts_that_are_under_way_together_cost_less_than_one_each() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &["first"]).await;
    server.clear_records();
    for _ in 0..640 {
        drop(producer.enqueue("a").await.expect("enqueued"));
    }
    within("all is put", SOON, producer.flush()).await.expect("put");
    let sent = requests(&server);
    assert!(sent.iter().all(|operation| *operation == Operation::Multi), "{sent:?}");
    assert!(sent.len() <= 640 / 64 + 2, "{} for 640 items", sent.len());
}

#[tokio::test(start_paused = true)]
async fn a_take_and_an_ack_cost_three_requests_however_long_the_item_is_worked_on() {
    for handling in [0, 20, 1_500, 5_000].map(Duration::from_millis) {
        let (server, one, two) = setup().await;
        let producer = filled(&one, &[]).await;
        for number in 0..64 {
            drop(producer.enqueue(number.to_string()).await.expect("enqueued"));
        }
        producer.flush().await.expect("put");
        let consumer = queue(&two).consumer();
        server.clear_records();
        for _ in 0..64 {
            let delivery = taken(&consumer).await;
            tokio::time::sleep(handling).await;
            acked(delivery).await;
        }
        let sent = requests(&server);
        let of = |wanted| sent.iter().filter(|operation| **operation == wanted).count();
        assert_eq!((of(Operation::GetData), of(Operation::Multi)), (64, 128));
        assert_eq!((of(Operation::AddWatch), of(Operation::List)), (2, 2), "once for all");
        assert_eq!(sent.len(), 3 * 64 + 4, "{sent:?}");
        at_rest(&server, 0).await;
    }
}

/// The first claims come together, and the directory of the claims does not exist yet.
#[tokio::test(start_paused = true)]
async fn forty_first_claims_create_their_directory_once_and_cost_little_more_than_two_requests_an_item() {
    const ITEMS: usize = 40;
    let server = zookeeper_recipes::testing::TestingServer::start();
    let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    let producer = filled(&one, &[]).await;
    for number in 0..ITEMS {
        drop(producer.enqueue(number.to_string()).await.expect("enqueued"));
    }
    producer.flush().await.expect("put");
    let consumer = builder(&two).prefetch(100).build().expect("a queue").consumer();
    server.clear_records();
    let first = taken(&consumer).await;
    server.until(|| server.children(CLAIMS).len() == ITEMS).await;
    let sent = requests(&server);
    let creates = sent.iter().filter(|operation| **operation == Operation::Create).count();
    assert!(creates <= 1 && sent.len() <= 2 * ITEMS + 8, "{creates} creates, {} requests", sent.len());
    acked(first).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_consumer_asks_for_nothing() {
    let (server, one, two) = setup().await;
    let _producer = filled(&one, &["a"]).await;
    let consumer = queue(&two).consumer();
    drained(&consumer, 1).await;
    let waiting = tokio::time::timeout(SOON, consumer.take()).await;
    assert!(waiting.is_err(), "there is nothing");
    server.clear_records();
    let waiting = tokio::time::timeout(SOON * 590, consumer.take()).await;
    assert!(waiting.is_err(), "there is nothing");
    assert_eq!(requests(&server), []);
}

#[tokio::test(start_paused = true)]
async fn an_idle_consumer_sends_six_heartbeats_in_a_session_timeout_and_an_idle_producer_none() {
    let (server, one, two) = setup().await;
    let _producer = filled(&one, &["a"]).await;
    let consumer = queue(&two).consumer();
    drained(&consumer, 1).await;
    assert_eq!(heartbeats_in_three_timeouts(&server, &two).await, 3 * 6);
    assert_eq!(heartbeats_in_three_timeouts(&server, &one).await, 0);
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_for_what_another_holds_asks_for_nothing() {
    let (server, one, two) = setup().await;
    let _producer = filled(&one, &["a"]).await;
    let held = taken(&queue(&one).consumer()).await;
    let idle = queue(&two).consumer();
    let mut waiting = Box::pin(idle.take());
    crate::fixture::still_pending("another has it", &mut waiting).await;
    server.clear_records();
    for _ in 0..100 {
        let path = server.create_by_hand(&format!("{PATH}/note-"), "", CreateMode::PersistentSequential);
        server.delete_by_hand(&path.expect("a new node")).expect("it exists");
    }
    crate::fixture::still_pending("another has it", &mut waiting).await;
    assert_eq!(requests(&server), []);
    drop((held, waiting));
}
