//! The connection breaks, and comes back with the same session.

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::queue::ClaimHandle;

use super::fixture::{CLAIMS, acked, at_rest, builder, drained, filled, queue, setup, taken};
use crate::fixture::{SOON, T, client_with, still_pending, within};

#[tokio::test(start_paused = true)]
async fn under_the_standard_policy_a_claim_is_lost_with_the_connection_but_an_ack_in_time_counts() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    let held = taken(&consumer).await;
    server.disconnect(&one);
    within("it is told", SOON, held.lost()).await;
    assert!(!held.is_held());
    let other = queue(&two).consumer();
    let mut waiting = Box::pin(other.take());
    still_pending("its node stays", &mut waiting).await;
    assert_eq!(server.children(CLAIMS).len(), 1);
    within("the session is back", T, held.ack()).await.expect("no other consumer had it");
    still_pending("it is done", &mut waiting).await;
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn under_the_session_policy_a_claim_survives_a_short_outage() {
    let (server, _, two) = setup().await;
    let one = client_with(&server, ErrorPolicy::Session).await;
    let _producer = filled(&two, &["a"]).await;
    let held = taken(&queue(&one).consumer()).await;
    for _ in 0..3 {
        server.disconnect(&one);
        tokio::time::sleep(SOON).await;
        assert!(held.is_held());
    }
    acked(held).await;
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_ahead_is_handed_out_after_an_outage_as_it_was_before() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b", "c"]).await;
    let consumer = builder(&one).prefetch(2).build().expect("a queue").consumer();
    let held = taken(&consumer).await;
    server.until(|| server.children(CLAIMS).len() == 3).await;
    server.refuse(&one);
    server.disconnect(&one);
    within("it is told", SOON, held.lost()).await;
    let mut waiting = Box::pin(consumer.take());
    still_pending("nothing can be believed now", &mut waiting).await;
    server.heal();
    let next = within("the session is back", T, waiting).await.expect("an item");
    assert_eq!(next.item(), "b");
    assert!(next.is_held() && !held.is_held());
    acked(held).await;
    acked(next).await;
    assert_eq!(drained(&consumer, 1).await, ["c"]);
}

#[tokio::test(start_paused = true)]
async fn puts_and_takes_wait_for_the_servers_to_come_back() {
    let (server, one, two) = setup().await;
    let producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    server.stop();
    let mut putting = Box::pin(producer.put("b"));
    still_pending("there is no reply", &mut putting).await;
    let mut taking = Box::pin(consumer.take());
    still_pending("there is no reply", &mut taking).await;
    server.restart(zookeeper_recipes::testing::Data::Kept);
    within("they answer", T, putting).await.expect("put");
    acked(within("they answer", T, taking).await.expect("an item")).await;
    assert_eq!(drained(&consumer, 1).await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_claim_is_lost_is_run_again_as_the_next_delivery() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let queue = queue(&one);
    let consumer = queue.consumer();
    let held = taken(&consumer).await;
    server.disconnect(&one);
    within("it is told", SOON, held.lost()).await;
    drop(held);
    // As a handler: the first run is cut short, the second one is not.
    let runs = std::sync::atomic::AtomicUsize::new(0);
    let handle = |_: String, claim: ClaimHandle| {
        let first = runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        assert_eq!(claim.attempt(), 1, "neither it nor what was dropped has failed");
        if first {
            server.disconnect(&one);
        }
        async move { if first { std::future::pending().await } else { Ok::<(), std::io::Error>(()) } }
    };
    let closing = async {
        server.until(|| server.children(super::fixture::PATH).is_empty()).await;
        consumer.close().await;
    };
    let (consumed, ()) = within("handled", T * 3, futures::future::join(consumer.consume(1, handle), closing)).await;
    consumed.expect("consumed");
    assert_eq!(runs.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert_eq!(queue.dead_letters().await, Ok(vec![]));
}

/// Curator's testFlush.
#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_what_is_withheld_and_can_be_given_up_and_asked_for_again() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &["first"]).await;
    server.black_hole(&client);
    drop(producer.enqueue("a").await.expect("enqueued"));
    assert!(tokio::time::timeout(SOON, producer.flush()).await.is_err(), "there is no answer");
    server.heal();
    within("the flush ends", T, producer.flush()).await.expect("put");
    assert_eq!(super::fixture::texts(&server), ["first", "a"]);
}
