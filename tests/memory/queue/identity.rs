//! Each claim has a number of its own: an operation on an earlier one is refused.

use std::time::Duration;

use zookeeper_recipes::queue::{ClaimLost, Error};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{
    CLAIMS, PATH, acked, at_rest, builder, drained, filled, make_directories, names, put, queue, setup, taken,
};
use crate::fixture::{SOON, T, still_pending, within};

async fn fenced(client: &Client, fence: &zookeeper_recipes::Fence) -> Result<(), ErrorKind> {
    let write = client.transaction().check(fence).set_data("/queues", "x", None).commit().await;
    write.map(drop).map_err(|error| error.kind())
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_returned_is_not_held_and_its_fence_is_refused_also_under_a_later_claim() {
    let (_, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let first = taken(&queue(&one).consumer()).await;
    let (claim, fence) = (first.claim(), first.fence());
    assert_eq!(fenced(&one, &fence).await, Ok(()));
    first.nack().await.expect("returned");
    assert!(!claim.is_held());
    within("it is told", SOON, claim.lost()).await;
    assert_eq!(claim.run(std::future::pending::<()>()).await, Err(ClaimLost));
    assert_eq!(fenced(&one, &fence).await, Err(ErrorKind::Fenced));
    // On the same session, so that only the number tells the claims apart.
    let second = taken(&queue(&one).consumer()).await;
    assert_eq!((claim.name(), claim.attempt(), second.attempt()), (second.name(), 1, 2));
    assert!(second.is_held() && !claim.is_held());
    assert_eq!(fenced(&one, &fence).await, Err(ErrorKind::Fenced), "it is of the first claim");
    assert_eq!(fenced(&one, &second.fence()).await, Ok(()));
    assert!(second.fencing_token() > claim.fencing_token());
    acked(second).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_claim_was_deleted_by_hand_the_next_claimer_settles_and_the_first_does_not() {
    for settle in ["ack", "nack", "reject"] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let first = taken(&queue(&one).consumer()).await;
        let fence = first.fence();
        server.delete_by_hand(&format!("{CLAIMS}/{}", first.name())).expect("it exists");
        let second = taken(&queue(&two).consumer()).await;
        assert_eq!(fenced(&one, &fence).await, Err(ErrorKind::Fenced));
        let refused = match settle {
            "ack" => first.ack().await.map(drop),
            "nack" => first.nack().await,
            _ => first.reject("bad").await,
        };
        assert!(matches!(refused, Err(Error::Lost { .. })), "{settle}: {refused:?}");
        assert_eq!(server.children(CLAIMS).len(), 1, "the second claim exists");
        assert!(second.is_held());
        assert_eq!(fenced(&two, &second.fence()).await, Ok(()));
        acked(second).await;
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_works_under_run_or_waits_for_lost_is_told_that_the_claim_was_deleted_by_hand() {
    for reconnects in [false, true] {
        let server = TestingServer::start();
        make_directories(&server);
        let one = crate::fixture::client_with(&server, zookeeper_recipes::ErrorPolicy::Session).await;
        let two = server.client().await.expect("a client");
        let _producer = filled(&two, &["a"]).await;
        let consumer = queue(&one).consumer();
        let delivery = taken(&consumer).await;
        let claim = delivery.claim();
        let mut working = Box::pin(claim.run(std::future::pending::<()>()));
        let mut lost = Box::pin(delivery.lost());
        still_pending("it is held", &mut working).await;
        still_pending("it is held", &mut lost).await;
        if reconnects {
            server.disconnect(&one);
        }
        server.delete_by_hand(&format!("{CLAIMS}/{}", delivery.name())).expect("it exists");
        assert_eq!(within("it is told", T, working).await, Err(ClaimLost));
        within("it is told", SOON, lost).await;
        assert!(!delivery.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn to_be_told_costs_one_request_and_only_who_wants_to_know() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let delivery = taken(&queue(&one).consumer()).await;
    tokio::time::sleep(SOON).await;
    let before = one.request_counts();
    assert!(delivery.is_held());
    assert_eq!((one.request_counts() - before).total(), 0);
    for _ in 0..3 {
        let _ = tokio::time::timeout(Duration::from_millis(100), delivery.lost()).await;
        let _ = tokio::time::timeout(Duration::from_millis(100), delivery.run(std::future::pending::<()>())).await;
    }
    assert_eq!((one.request_counts() - before).watches, 1);
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_kills_its_consumers_is_a_dead_letter_after_so_many_deliveries() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["poison", "good"]).await;
    let queue = builder(&one).max_deliveries(3).build().expect("a queue");
    for attempt in 1..=3 {
        let consumer = queue.consumer();
        let delivery = within("it comes", T, consumer.take()).await.expect("an item");
        assert_eq!((delivery.item().as_str(), delivery.attempt()), ("poison", attempt));
        // The process dies with it.
        server.expire_session(&one);
        std::mem::forget(delivery);
    }
    let survivor = queue.consumer();
    let delivery = within("the next one comes", T, survivor.take()).await.expect("an item");
    assert_eq!(delivery.item(), "good");
    acked(delivery).await;
    let letters = queue.dead_letters().await.expect("letters");
    let told: Vec<_> = letters.iter().map(|letter| (letter.item.as_str(), letter.attempts)).collect();
    assert_eq!(told, [("queue-0000000000", 3)]);
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_released_item_is_no_dead_letter_of_its_last_delivery() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let queue = builder(&one).max_deliveries(2).build().expect("a queue");
    let consumer = queue.consumer();
    taken(&consumer).await.release().await.expect("returned");
    let last = taken(&consumer).await;
    assert_eq!(last.attempt(), 1);
    acked(last).await;
    assert_eq!((names(&server).len(), queue.dead_letters().await), (0, Ok(vec![])));
}

/// Curator's container was reaped, say.
#[tokio::test(start_paused = true)]
async fn an_item_of_a_queue_that_was_created_again_is_not_taken_for_an_earlier_one_of_its_name() {
    let (server, one, two) = setup().await;
    let producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    taken(&consumer).await.nack_after(T * 360).await.expect("returned");
    let mut waiting = Box::pin(consumer.take());
    still_pending("it is hidden here", &mut waiting).await;
    server.delete_by_hand(&format!("{PATH}/queue-0000000000")).expect("it exists");
    server.delete_by_hand(PATH).expect("it is empty");
    put(&producer, &["b"]).await;
    let delivery = within("it is another one", T, waiting).await.expect("an item");
    assert_eq!((delivery.item().as_str(), delivery.name()), ("b", "queue-0000000000"));
    acked(delivery).await;
}

#[tokio::test(start_paused = true)]
async fn an_item_that_others_have_done_is_hidden_no_more() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b"]).await;
    let consumer = queue(&one).consumer();
    taken(&consumer).await.nack_after(T * 360).await.expect("returned");
    // A consumer of Curator does not read the delay.
    server.delete_by_hand(&format!("{PATH}/queue-0000000000")).expect("it exists");
    assert_eq!(drained(&consumer, 1).await, ["b"]);
}

/// A lock node of Curator's has the name of the item, and version 0.
#[tokio::test(start_paused = true)]
async fn a_lock_of_curators_is_respected_and_never_taken_for_a_claim() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b"]).await;
    let lock = format!("{CLAIMS}/queue-0000000000");
    server.create_by_hand(&lock, "", CreateMode::Persistent).expect("a new node");
    let consumer = queue(&one).consumer();
    assert_eq!(drained(&consumer, 1).await, ["b"], "the first one is locked");
    let mut waiting = Box::pin(consumer.take());
    still_pending("it is locked", &mut waiting).await;
    server.delete_by_hand(&lock).expect("it exists");
    let held = within("it is free", SOON, waiting).await.expect("an item");
    // By hand, its claim becomes a lock.
    server.delete_by_hand(&lock).expect("it exists");
    server.create_by_hand(&lock, "", CreateMode::Persistent).expect("a new node");
    assert_eq!(fenced(&one, &held.fence()).await, Err(ErrorKind::Fenced));
    assert!(matches!(held.ack().await, Err(Error::Lost { .. })));
    assert_eq!(server.children(CLAIMS).len(), 1, "the lock exists");
}

/// Curator's consumers watch the items alone.
#[tokio::test(start_paused = true)]
async fn an_item_that_is_returned_wakes_consumers_of_curators_that_share_the_claims() {
    for shared in [false, true] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let queue = if shared { builder(&one).claims_path(CLAIMS) } else { builder(&one) };
        let consumer = queue.build().expect("a queue").consumer();
        let delivery = taken(&consumer).await;
        let before = server.stat(PATH).expect("it exists").cversion;
        delivery.nack().await.expect("returned");
        let changes = server.stat(PATH).expect("it exists").cversion - before;
        assert_eq!((changes, names(&server).len()), (if shared { 2 } else { 0 }, 1));
    }
}
