//! Futures of a queue dropped at every poll: nothing is lost, and no claim is left behind.

use super::fixture::{at_rest, filled, queue, setup, taken, texts};
use crate::fixture::{T, polled, within};

#[tokio::test(start_paused = true)]
async fn a_put_dropped_at_any_poll_is_in_the_queue_once_or_not_at_all() {
    let mut put = [0, 0];
    for times in 0..8 {
        let (server, client, _) = setup().await;
        let producer = filled(&client, &["before"]).await;
        let done = polled(times, producer.put("a")).await;
        within("all is put", crate::fixture::SOON, producer.flush()).await.expect("put");
        let found = texts(&server).len() - 1;
        assert!(found <= 1 && (done.is_none() || found == 1), "after {times} polls");
        assert!(times > 0 || found == 0, "not polled, nothing is put");
        put[found] += 1;
    }
    assert!(put[0] > 0 && put[1] > 0, "{put:?}");
}

#[tokio::test(start_paused = true)]
async fn a_take_dropped_at_any_poll_leaves_the_item_to_the_next() {
    for times in 0..16 {
        let (_, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let consumer = queue(&one).consumer();
        drop(polled(times, consumer.take()).await);
        let other = queue(&two).consumer();
        let delivery = within("another gets it", T, other.take()).await.expect("an item");
        assert_eq!((delivery.item().as_str(), delivery.attempt()), ("a", 1), "after {times} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_settlement_dropped_at_any_poll_is_one_if_it_was_polled() {
    for ack in [true, false] {
        for times in 0..6 {
            let (server, one, two) = setup().await;
            let _producer = filled(&two, &["a"]).await;
            let consumer = queue(&one).consumer();
            let delivery = taken(&consumer).await;
            match ack {
                true => drop(polled(times, delivery.ack()).await),
                false => drop(polled(times, delivery.reject("bad")).await),
            }
            drop(consumer);
            // Never polled it is a drop.
            at_rest(&server, usize::from(times == 0)).await;
        }
    }
}
