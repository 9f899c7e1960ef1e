//! Nodes are deleted by hand.

use zookeeper_recipes::queue::Error;
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{
    CLAIMS, PATH, PRODUCERS, acked, at_rest, drained, filled, names, put, queue, setup, taken, texts,
};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn an_ack_without_its_claim_is_an_error_and_the_item_comes_again() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    let held = taken(&consumer).await;
    server.delete_by_hand(&format!("{CLAIMS}/{}", held.name())).expect("it exists");
    let fenced = one.transaction().check(&held.fence()).set_data("/queues", "x", None).commit().await;
    assert_eq!(fenced.expect_err("the claim is gone").kind(), ErrorKind::Fenced);
    let error = within("it is refused", SOON, held.ack()).await.expect_err("lost");
    assert!(matches!(error, Error::Lost { .. }) && error.is_lost(), "{error}");
    assert_eq!(names(&server).len(), 1);
    assert_eq!(drained(&consumer, 1).await, ["a"]);
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_ack_of_an_item_that_was_deleted_or_changed_says_so_and_leaves_no_claim() {
    for changed in [false, true] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let consumer = queue(&one).consumer();
        let held = taken(&consumer).await;
        let item = format!("{PATH}/{}", held.name());
        match changed {
            true => server.set_data_by_hand(&item, server.get(&item).expect("it exists")).expect("it exists"),
            false => server.delete_by_hand(&item).expect("it exists"),
        }
        let error = within("it is refused", SOON, held.ack()).await.expect_err("lost");
        assert!(matches!(error, Error::Lost { .. }), "{error}");
        at_rest(&server, usize::from(changed)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_producer_whose_node_is_deleted_continues_with_another() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &["a"]).await;
    for item in ["b", "c"] {
        let node = server.children(PRODUCERS).remove(0);
        server.delete_by_hand(&format!("{PRODUCERS}/{node}")).expect("it exists");
        put(&producer, &[item]).await;
    }
    assert_eq!(texts(&server), ["a", "b", "c"]);
    assert_eq!(server.children(PRODUCERS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_producer_whose_node_is_written_by_another_client_puts_nothing_twice_and_nothing_by_guess() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &["a"]).await;
    let node = format!("{PRODUCERS}/{}", server.children(PRODUCERS).remove(0));
    server.set_data_by_hand(&node, "nonsense").expect("it exists");
    put(&producer, &["b"]).await;
    assert_eq!(texts(&server), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn directories_that_are_deleted_are_made_again() {
    let (server, one, two) = setup().await;
    let producer = filled(&one, &["a"]).await;
    let consumer = queue(&two).consumer();
    assert_eq!(drained(&consumer, 1).await, ["a"]);
    at_rest(&server, 0).await;
    for path in [PATH, CLAIMS] {
        server.delete_by_hand(path).expect("it is empty");
    }
    within("it is put", T, producer.put("b")).await.expect("put");
    let delivery = within("it comes", T, consumer.take()).await.expect("an item");
    assert_eq!(delivery.item(), "b");
    delivery.ack().await.expect("acked");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_edited_while_its_return_is_in_doubt_leaves_no_claim() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let held = taken(&queue(&one).consumer()).await;
    let item = format!("{PATH}/{}", held.name());
    server.lose_next_reply(&one, Operation::Multi, Loss::NotApplied);
    let returning = tokio::spawn(held.nack());
    server.until(|| server.lost_replies() == 1).await;
    server.set_data_by_hand(&item, server.get(&item).expect("it exists")).expect("it exists");
    within("it is returned", T, returning).await.expect("no panic").expect("it is free");
    at_rest(&server, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_written_by_hand_is_no_claim_any_more_and_goes() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    let held = taken(&consumer).await;
    server.set_data_by_hand(&format!("{CLAIMS}/{}", held.name()), "mine").expect("it exists");
    within("it is told", SOON, held.lost()).await;
    let error = within("it is refused", SOON, held.ack()).await.expect_err("lost");
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert_eq!(drained(&consumer, 1).await, ["a"]);
    at_rest(&server, 0).await;
}

/// To wake Curator's consumers is a courtesy.
#[tokio::test(start_paused = true)]
async fn an_item_is_returned_also_if_no_consumer_can_be_woken() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let held = taken(&super::fixture::builder(&one).claims_path(CLAIMS).build().expect("a queue").consumer()).await;
    let in_the_way = format!("{PATH}/wake-{}", held.name());
    server.create_by_hand(&in_the_way, "", CreateMode::Persistent).expect("a new node");
    within("it is returned", SOON, held.nack()).await.expect("returned");
    assert_eq!(server.children(CLAIMS), [""; 0]);
}

/// A queue that was deleted gives its names again.
#[tokio::test(start_paused = true)]
async fn an_ack_that_is_sent_again_takes_away_no_later_item_of_the_same_name() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, one, two) = setup().await;
        let producer = filled(&two, &["a"]).await;
        let held = taken(&queue(&one).consumer()).await;
        let name = held.name().to_owned();
        server.refuse(&one);
        server.lose_next_reply(&one, Operation::Multi, loss);
        let ack = tokio::spawn(held.ack());
        server.until(|| server.lost_replies() == 1).await;
        if loss == Loss::NotApplied {
            for node in [format!("{PATH}/{name}"), format!("{CLAIMS}/{name}")] {
                server.delete_by_hand(&node).expect("it exists");
            }
        }
        server.delete_by_hand(PATH).expect("it is empty");
        put(&producer, &["b"]).await;
        let other = taken(&queue(&two).consumer()).await;
        assert_eq!((other.name(), other.item().as_str(), other.attempt()), (&*name, "b", 1));
        server.heal();
        // Whether it was acked or deleted by hand cannot be told.
        within("it is known", T, ack).await.expect("no panic").expect("acked");
        assert_eq!((names(&server), server.children(CLAIMS)), (vec![name.clone()], vec![name]), "{loss:?}");
        acked(other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_sent_again_writes_into_no_later_item_of_the_same_name() {
    let (server, one, two) = setup().await;
    let producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    server.refuse(&one);
    server.lose_next_reply(&one, Operation::Multi, Loss::NotApplied);
    let taking = tokio::spawn(async move { consumer.take().await });
    server.until(|| server.lost_replies() == 1).await;
    assert_eq!(drained(&queue(&two).consumer(), 1).await, ["a"]);
    server.delete_by_hand(PATH).expect("it is empty");
    put(&producer, &["b"]).await;
    server.heal();
    let delivery = within("it is taken", T, taking).await.expect("no panic").expect("an item");
    assert_eq!((delivery.item().as_str(), delivery.attempt()), ("b", 1));
    acked(delivery).await;
    at_rest(&server, 0).await;
}
