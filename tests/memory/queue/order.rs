//! The order of items.

use futures::future::join_all;

use super::fixture::{drained, filled, queue, setup, texts};
use crate::fixture::{SOON, within};

#[tokio::test(start_paused = true)]
async fn puts_polled_together_come_in_the_order_in_which_they_were_polled_first() {
    let (server, one, two) = setup().await;
    let producer = filled(&one, &[]).await;
    let items: Vec<String> = (0..500).map(|number| format!("{number:03}")).collect();
    let puts = join_all(items.iter().map(|item| producer.put(item.clone())));
    for put in within("all are put", SOON, puts).await {
        put.expect("put");
    }
    assert_eq!(texts(&server), items);
    assert_eq!(drained(&queue(&two).consumer(), 500).await, items);
}

#[tokio::test(start_paused = true)]
async fn large_items_that_fill_the_pipe_keep_their_order() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &[]).await;
    let items: Vec<String> = (0..40).map(|number| format!("{number:02}{}", "x".repeat(300_000))).collect();
    let puts = join_all(items.iter().map(|item| producer.put(item.clone())));
    assert!(within("all are put", SOON, puts).await.iter().all(Result::is_ok));
    assert!(texts(&server) == items);
}
