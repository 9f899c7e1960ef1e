//! The process of a consumer, or of a producer, is stopped for longer than its session, as by SIGSTOP.

use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{acked, at_rest, builder, filled, queue, setup, taken, texts};
use crate::fixture::{T, within};

const RESULT: &str = "/result";

#[tokio::test(start_paused = true)]
async fn a_consumer_that_was_frozen_is_told_no_at_the_first_look_and_its_fenced_write_is_refused() {
    let (server, one, two) = setup().await;
    server.create_by_hand(RESULT, "", CreateMode::Persistent).expect("a new node");
    let _producer = filled(&two, &["a"]).await;
    let (tell, told) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    // All of it in the stopped process: it looks before anything else when it resumes.
    let work = server.spawn(&one, {
        let client = one.clone();
        async move {
            let consumer = queue(&client).consumer();
            let delivery = consumer.take().await.expect("an item");
            let (before, fence) = (delivery.is_held(), delivery.fence());
            let _ = tell.send(());
            let _ = gone.await;
            let after = delivery.is_held();
            let fenced = client.transaction().check(&fence).set_data(RESULT, "late", None).commit().await;
            let acked = delivery.ack().await;
            (before, after, fenced.map(drop), acked)
        }
    });
    told.await.expect("it has it");
    server.freeze_client(&one);
    let _ = go.send(());
    let next = within("another gets it", T * 2, queue(&two).consumer().take()).await.expect("an item");
    let write = two.transaction().check(&next.fence()).set_data(RESULT, "done", None);
    write.commit().await.expect("it is held");
    acked(next).await;
    tokio::time::sleep(T).await;
    server.thaw_client(&one);
    let (before, after, fenced, acked) = within("it wakes", T * 3, work).await.expect("no panic");
    assert!(before && !after);
    let refused = fenced.expect_err("the claim is gone");
    assert!(matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Fenced), "{refused}");
    let refused = acked.expect_err("the claim is gone");
    assert!(matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::OutcomeUnknown), "{refused}");
    assert_eq!(server.get(RESULT).as_deref(), Some(&b"done"[..]));
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_consumer_that_was_frozen_had_claimed_ahead_is_not_handed_out() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b"]).await;
    let (tell, told) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let mut work = server.spawn(&one, {
        let client = one.clone();
        async move {
            let consumer = builder(&client).prefetch(1).build().expect("a queue").consumer();
            let first = consumer.take().await.expect("an item");
            let _ = tell.send(());
            let _ = gone.await;
            drop(first);
            consumer.take().await.map(|second| second.item().clone())
        }
    });
    told.await.expect("it has it");
    server.until(|| server.children(super::fixture::CLAIMS).len() == 2).await;
    server.freeze_client(&one);
    let _ = go.send(());
    let other = queue(&two).consumer();
    for expected in ["a", "b"] {
        let delivery = within("it is free", T * 2, other.take()).await.expect("an item");
        assert_eq!(delivery.item(), expected);
        acked(delivery).await;
    }
    server.thaw_client(&one);
    crate::fixture::still_pending("both are done", &mut work).await;
}

#[tokio::test(start_paused = true)]
async fn a_producer_that_was_frozen_puts_what_it_had_not_sent() {
    let (server, one, two) = setup().await;
    let _other = filled(&two, &["first"]).await;
    let work = server.spawn(&one, {
        let client = one.clone();
        async move {
            let producer = queue(&client).producer();
            producer.put("a").await.expect("put");
            tokio::time::sleep(T).await;
            producer.put("b").await
        }
    });
    server.until(|| texts(&server).len() == 2).await;
    server.freeze_client(&one);
    tokio::time::sleep(T * 3).await;
    server.thaw_client(&one);
    within("it wakes", T * 3, work).await.expect("no panic").expect("put");
    assert_eq!(texts(&server), ["first", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_taken_item_is_not_lost_when_its_taker_is_frozen_for_less_than_its_session() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let held = taken(&queue(&one).consumer()).await;
    server.freeze_client(&one);
    tokio::time::sleep(T / 5).await;
    server.thaw_client(&one);
    tokio::time::sleep(T / 5).await;
    assert!(held.is_held());
    acked(held).await;
}
