//! Items that are put with a priority.

use super::fixture::{acked, at_rest, drained, names, put, queue, setup, taken};
use crate::fixture::{SOON, within};

#[tokio::test(start_paused = true)]
async fn lower_priorities_come_first_and_equal_ones_in_the_order_of_their_puts() {
    let (server, one, two) = setup().await;
    let producer = queue(&one).producer();
    let priorities = [5, i32::MAX, 0, -3, i32::MIN, 5, 0];
    for (nth, priority) in priorities.into_iter().enumerate() {
        producer.priority(priority).put(format!("{priority}, put {nth}")).await.expect("put");
    }
    put(&producer, &["without one"]).await;
    assert_eq!(names(&server)[3], "queue-1000000000000000002");
    let mut expected: Vec<_> = priorities.into_iter().enumerate().map(|(nth, priority)| (priority, nth)).collect();
    expected.push((0, priorities.len()));
    expected.sort_unstable();
    let expected = expected.into_iter().map(|(priority, nth)| {
        if nth == priorities.len() { "without one".to_owned() } else { format!("{priority}, put {nth}") }
    });
    assert_eq!(drained(&queue(&two).consumer(), priorities.len() + 1).await, expected.collect::<Vec<_>>());
    at_rest(&server, 0).await;
}

/// Curator's testSortingWhileTaking. The consumer has read the data of the next item by then, but has not claimed it.
#[tokio::test(start_paused = true)]
async fn an_urgent_item_comes_right_after_the_one_in_hand() {
    let (_server, one, two) = setup().await;
    let producer = queue(&one).producer();
    for priority in [3, 4, 5] {
        producer.priority(priority).put(priority.to_string()).await.expect("put");
    }
    let consumer = queue(&two).consumer();
    let held = taken(&consumer).await;
    assert_eq!(held.item(), "3");
    tokio::time::sleep(SOON).await;
    producer.priority(1).put("1").await.expect("put");
    tokio::time::sleep(SOON).await;
    acked(held).await;
    assert_eq!(drained(&consumer, 3).await, ["1", "4", "5"]);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_fails_keeps_its_priority_also_as_a_dead_letter_that_is_retried() {
    let (_server, one, two) = setup().await;
    let (queue, producer) = (queue(&one), queue(&one).producer());
    producer.priority(-7).put("urgent").await.expect("put");
    put(&producer, &["a"]).await;
    let consumer = super::fixture::queue(&two).consumer();
    let held = taken(&consumer).await;
    let name = held.name().to_owned();
    held.nack().await.expect("returned");
    let held = taken(&consumer).await;
    assert_eq!((held.name(), held.attempt()), (&*name, 2));
    held.reject("no").await.expect("rejected");
    let letter = queue.dead_letters().await.expect("letters").remove(0);
    within("it is retried", SOON, queue.retry(&letter)).await.expect("retried");
    assert_eq!(drained(&consumer, 2).await, ["urgent", "a"]);
}

/// All consumers together take them nearly in order.
#[tokio::test(start_paused = true)]
async fn with_several_consumers_urgent_items_are_overtaken_by_few() {
    const ITEMS: usize = 200;
    let (server, one, two) = setup().await;
    let producer = queue(&one).producer();
    for nth in 0..ITEMS {
        drop(producer.priority((nth % 2) as i32).enqueue((nth % 2).to_string()).await.expect("enqueued"));
    }
    producer.flush().await.expect("put");
    let (told, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let consumers = [&one, &two].map(|client| queue(client).consumer());
    let handler = |item: String, _: zookeeper_recipes::queue::ClaimHandle| {
        told.send(item).expect("the test listens");
        async { Ok::<(), std::io::Error>(()) }
    };
    let stop = async {
        server.until(|| names(&server).is_empty()).await;
        for consumer in &consumers {
            consumer.close().await;
        }
    };
    let work = futures::future::join_all(consumers.iter().map(|consumer| consumer.consume(2, handler)));
    within("all are handled", SOON * 60, futures::future::join(work, stop)).await;
    let items: Vec<_> = std::iter::from_fn(|| taken.try_recv().ok()).collect();
    assert_eq!(items.len(), ITEMS);
    let misplaced = items[..ITEMS / 2].iter().filter(|item| **item != *"0").count();
    assert!(misplaced <= 20, "{misplaced} of {ITEMS}");
}
