//! What a queue costs.

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::testing::Operation;

use super::scene::{PATH, at_rest, drained, filled, queue, scene, taken};
use crate::in_memory::{SOON, requests, within};

#[tokio::test(start_paused = true)]
async fn a_put_costs_one_request() {
    let (server, client, _) = scene().await;
    let producer = filled(&client, &["first"]).await;
    server.clear_records();
    for _ in 0..20 {
        producer.put("a").await.expect("put");
    }
    assert_eq!(requests(&server), [Operation::Multi; 20]);
}

#[tokio::test(start_paused = true)]
async fn puts_that_are_under_way_together_cost_less_than_one_each() {
    let (server, client, _) = scene().await;
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
async fn a_take_and_an_ack_cost_three_requests_and_a_share_of_a_list() {
    let (server, one, two) = scene().await;
    let producer = filled(&one, &[]).await;
    for number in 0..256 {
        drop(producer.enqueue(number.to_string()).await.expect("enqueued"));
    }
    producer.flush().await.expect("put");
    let consumer = queue(&two).consumer();
    server.clear_records();
    drained(&consumer, 256).await;
    let sent = requests(&server);
    let of = |wanted| sent.iter().filter(|operation| **operation == wanted).count();
    assert_eq!((of(Operation::GetData), of(Operation::Multi)), (256, 512));
    // The last ones, claimed ahead, are followed by a list each.
    assert!(of(Operation::List) <= 256 / 64 + 10, "{} lists", of(Operation::List));
    assert_eq!(sent.len(), 768 + of(Operation::List), "{sent:?}");
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_consumer_asks_for_nothing() {
    let (server, one, two) = scene().await;
    let _producer = filled(&one, &["a"]).await;
    let consumer = queue(&two).consumer();
    drained(&consumer, 1).await;
    let waiting = tokio::time::timeout(SOON, consumer.take()).await;
    assert!(waiting.is_err(), "there is nothing");
    server.clear_records();
    let waiting = tokio::time::timeout(SOON * 600, consumer.take()).await;
    assert!(waiting.is_err(), "there is nothing");
    assert_eq!(requests(&server), []);
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_for_what_another_holds_lists_no_more_than_ten_times_a_second() {
    let (server, one, two) = scene().await;
    let _producer = filled(&one, &["a"]).await;
    let held = taken(&queue(&one).consumer()).await;
    let idle = queue(&two).consumer();
    let mut waiting = Box::pin(idle.take());
    crate::in_memory::still_pending("another has it", &mut waiting).await;
    let lists = |client: &zookeeper_recipes::Client| server.count(client, Operation::List);
    let before = lists(&two);
    for _ in 0..100 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let path = server.create_by_hand(&format!("{PATH}/note-"), "", CreateMode::PersistentSequential);
        server.delete_by_hand(&path.expect("a new node")).expect("it exists");
    }
    // Items and claims in one flight.
    let lists = lists(&two) - before;
    assert!((2 * 8..=2 * 12).contains(&lists), "{lists}");
    drop((held, waiting));
}
