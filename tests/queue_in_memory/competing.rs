//! Several consumers of one queue.

use std::collections::BTreeMap;

use futures::future::join_all;
use zookeeper_recipes::testing::Operation;

use super::scene::{acked, at_rest, filled, queue, scene, taken};
use crate::in_memory::{T, within};

#[tokio::test(start_paused = true)]
async fn four_consumers_share_a_thousand_items_and_none_comes_twice() {
    let (server, one, two) = scene().await;
    let clients =
        [one.clone(), two.clone(), server.client().await.expect("a client"), server.client().await.expect("a client")];
    let producer = filled(&one, &[]).await;
    for number in 0..1_000 {
        drop(producer.enqueue(number.to_string()).await.expect("enqueued"));
    }
    producer.flush().await.expect("put");
    let before: Vec<_> = clients.iter().map(zookeeper_recipes::Client::request_counts).collect();
    let consumers: Vec<_> = clients.iter().map(|client| queue(client).consumer()).collect();
    let shares = join_all(consumers.iter().map(|consumer| async move {
        let mut items = Vec::new();
        while let Ok(taken) = tokio::time::timeout(T, consumer.take()).await {
            let delivery = taken.expect("an item");
            items.push(delivery.item().clone());
            delivery.ack().await.expect("acked");
        }
        items
    }));
    let shares = within("all are taken", T * 10, shares).await;
    let mut times = BTreeMap::new();
    for item in shares.iter().flatten() {
        *times.entry(item).or_insert(0) += 1;
    }
    assert_eq!(times.len(), 1_000);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    assert!(shares.iter().all(|share| share.len() > 100), "{:?}", shares.iter().map(Vec::len).collect::<Vec<_>>());
    at_rest(&server, 0).await;
    // Some tries are in vain, and listings grow old: not many.
    let sent: u64 = clients.iter().zip(before).map(|(client, before)| (client.request_counts() - before).total()).sum();
    println!(
        "{sent} requests for 1000 items; lists: {}",
        server.count(zookeeper_recipes::testing::Target::ALL, Operation::List)
    );
    assert!(sent <= 4_000, "{sent} requests for 1000 items");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_to_a_consumer_that_takes_nothing_more_is_taken_all_the_same() {
    let (server, one, two) = scene().await;
    let _producer = filled(&two, &["0", "1", "2", "3", "4", "5", "6"]).await;
    let busy = taken(&queue(&two).consumer()).await;
    // It meets the other one, and leaves items to it; nothing is settled, so no watch tells of anything.
    let consumer = queue(&one).consumer();
    let mut held = Vec::new();
    for _ in 1..7 {
        held.push(taken(&consumer).await);
    }
    for delivery in held {
        acked(delivery).await;
    }
    acked(busy).await;
    at_rest(&server, 0).await;
}
