//! Paths that may not be touched.

use futures::StreamExt;
use zookeeper_recipes::queue::{Consumer, Delivery, Error, Event, Utf8};
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Acl, Client, ErrorKind, Permissions};

use super::fixture::{CLAIMS, PATH, PRODUCERS, acked, at_rest, filled, put, queue, setup, taken};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn a_put_without_permission_is_an_error_and_the_next_one_may_succeed() {
    for denied in [PATH, PRODUCERS] {
        let (server, client, _) = setup().await;
        let producer = queue(&client).producer();
        server.deny(denied);
        let error = within("it is told", SOON, producer.put("a")).await.expect_err("no permission");
        assert!(matches!(&error, Error::Client { .. }) && error.kind() == ErrorKind::NoAuth, "{denied}: {error}");
        server.allow(denied);
        put(&producer, &["b"]).await;
        at_rest(&server, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_item_that_is_refused_takes_no_other_with_it() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &["first"]).await;
    server.deny(PATH);
    let refused = producer.enqueue("refused").await.expect("enqueued");
    let error = within("it is told", SOON, refused).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth);
    server.allow(PATH);
    put(&producer, &["next"]).await;
    assert_eq!(super::fixture::texts(&server), ["first", "next"]);
}

#[tokio::test(start_paused = true)]
async fn a_take_without_permission_is_an_error_and_the_next_one_may_succeed() {
    for denied in [PATH, CLAIMS] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        server.deny(denied);
        let consumer = queue(&one).consumer();
        for _ in 0..2 {
            let error = within("it is told", T, consumer.take()).await.expect_err("no permission");
            assert_eq!(error.kind(), ErrorKind::NoAuth, "{denied}: {error}");
        }
        server.allow(denied);
        acked(taken_at_last(&consumer).await).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_listed_after_a_reconnect_is_taken_once_it_is_allowed() {
    let (server, one, two) = setup().await;
    let producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    acked(taken(&consumer).await).await;
    // Servers tell nothing of a node that may not be read: only a list shows that it came.
    let item = format!("{PATH}/queue-0000000001");
    server.deny(&item);
    put(&producer, &["b"]).await;
    for denied in [PATH, CLAIMS] {
        server.deny(denied);
    }
    server.disconnect(&one);
    let error = within("it is told", T, consumer.take()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    for allowed in [PATH, CLAIMS, &item] {
        server.allow(allowed);
    }
    let delivery = taken_at_last(&consumer).await;
    assert_eq!(delivery.item(), "b");
    acked(delivery).await;
}

#[tokio::test(start_paused = true)]
async fn an_item_that_could_not_be_seen_is_found_while_a_caller_waits() {
    let (server, one, two) = setup().await;
    let consumer = queue(&one).consumer();
    let mut waiting = Box::pin(consumer.take());
    crate::fixture::still_pending("there is nothing", &mut waiting).await;
    // Servers tell nothing of a node that may not be read, nor when it may.
    let item = format!("{PATH}/queue-0000000000");
    server.deny(&item);
    let _producer = filled(&two, &["a"]).await;
    server.allow(&item);
    crate::fixture::still_pending("nothing was told", &mut waiting).await;
    let delivery = within("it is listed", SOON * 601, waiting).await.expect("an item");
    delivery.ack().await.expect("acked");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_settled_is_given_up_as_soon_as_that_is_allowed() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    let held = taken(&consumer).await;
    server.deny(CLAIMS);
    let error = within("it is told", SOON, held.ack()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    tokio::time::sleep(T).await;
    server.allow(CLAIMS);
    server.until(|| server.children(CLAIMS).is_empty()).await;
    // Its lease has to be proven first, as nothing has used it.
    let delivery = within("another gets it", T, queue(&two).consumer().take()).await.expect("an item");
    delivery.ack().await.expect("acked");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_removed_after_its_item_was_deleted_is_told_and_removed_once_that_is_allowed() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let held = taken(&queue(&one).consumer()).await;
    server.delete_by_hand(&format!("{PATH}/{}", held.name())).expect("an item");
    server.deny(CLAIMS);
    server.clear_records();
    let error = within("it is told", SOON, held.ack()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    let requests = server.records().len();
    assert!(requests < 20, "{requests} requests");
    server.allow(CLAIMS);
    server.until(|| server.children(CLAIMS).is_empty()).await;
}

/// A claim in doubt that may not be looked for: it may stay until the session ends, which is told, and keeps no other
/// item back.
#[tokio::test(start_paused = true)]
async fn a_claim_in_doubt_that_may_not_be_read_is_told_and_keeps_no_other_item_back() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b"]).await;
    let consumer = queue(&one).consumer();
    let mut events = consumer.events();
    server.refuse(&one);
    server.lose_next_reply(&one, Operation::Multi, Loss::Applied);
    let taking = tokio::spawn(async move { consumer.take().await.expect("an item") });
    server.until(|| server.lost_replies() == 1).await;
    server.deny(&format!("{CLAIMS}/queue-0000000000"));
    server.heal();
    let next = within("the next one is taken", T, taking).await.expect("no panic");
    assert_eq!(next.item(), "b");
    let told = within("it is told", SOON, events.next()).await;
    let Some(Event::Failed { error }) = told else { panic!("{told:?}") };
    assert!(error.kind() == ErrorKind::NoAuth && error.to_string().contains("queue-0000000000"), "{error}");
    acked(next).await;
}

/// The next item, after permissions have come back: a failure from before may be told once more.
async fn taken_at_last(consumer: &Consumer<Utf8>) -> Delivery<String> {
    loop {
        if let Ok(delivery) = within("it comes", T * 4, consumer.take()).await {
            return delivery;
        }
    }
}

/// A producer counts in a node of its own.
#[tokio::test(start_paused = true)]
async fn acls_under_which_a_producer_cannot_count_are_told_and_not_tried_for_ever() {
    let server = TestingServer::start();
    let acls = vec![Acl::new(Permissions::READ | Permissions::CREATE | Permissions::DELETE, "world", "anyone")];
    let client = Client::builder_for_testing(&server).acls(acls).session_timeout(T).connect().await.expect("a client");
    let producer = queue(&client).producer();
    let error = within("it is told", SOON, producer.put("a")).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert_eq!(server.children(PATH), [""; 0]);
}
