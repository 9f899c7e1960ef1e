//! At most once: an item is acknowledged first, and worked on then.

use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{acked, at_rest, filled, names, queue, setup, taken};
use crate::fixture::{T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn an_ack_returns_the_items_that_left_the_queue_with_it() {
    for loss in [None, Some(Loss::Applied), Some(Loss::NotApplied)] {
        let (server, one, two) = setup().await;
        let producer = queue(&two).producer();
        producer.put_many(["a", "b"]).await.expect("put");
        let consumer = queue(&one).consumer();
        let delivery = taken(&consumer).await;
        if let Some(loss) = loss {
            server.lose_next_reply(&one, Operation::Multi, loss);
        }
        let items = within("it is acked", T, delivery.ack()).await.expect("acked");
        assert_eq!(items, ["a", "b"], "{loss:?}");
        at_rest(&server, 0).await;
        still_pending("it is gone", &mut Box::pin(consumer.take())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_crashes_after_the_ack_has_taken_the_item_with_it() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let work = server.spawn(&one, {
        let client = one.clone();
        async move {
            let items = queue(&client).consumer().take().await.expect("an item").ack().await.expect("acked");
            std::future::pending::<()>().await;
            drop(items);
        }
    });
    server.until(|| names(&server).is_empty()).await;
    server.freeze_client(&one);
    still_pending("it is not redelivered", &mut Box::pin(queue(&two).consumer().take())).await;
    drop(work);
}

#[tokio::test(start_paused = true)]
async fn an_ack_that_is_refused_returns_nothing_and_the_item_comes_again() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let delivery = taken(&queue(&one).consumer()).await;
    server.expire_session(&one);
    within("it is too late", T, delivery.ack()).await.expect_err("the session is over");
    let again = within("it comes again", T, queue(&two).consumer().take()).await.expect("an item");
    assert_eq!((again.item().as_str(), again.attempt()), ("a", 2));
    acked(again).await;
}
