//! Sessions that end, of producers and of consumers.

use std::time::Duration;

use zookeeper_recipes::queue::Error;
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::{
    CLAIMS, PATH, PRODUCERS, acked, at_rest, builder, drained, filled, make_directories, put, queue, setup, taken,
    texts,
};
use crate::fixture::{SOON, T, client_with, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_producer_continues_with_its_next_session() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &["a"]).await;
    let session = client.session_id();
    server.expire_session(&client);
    server.until(|| client.session_id().is_some_and(|id| Some(id) != session)).await;
    within("it is put", T * 2, producer.put("b")).await.expect("put");
    put(&producer, &["c"]).await;
    assert_eq!(texts(&server), ["a", "b", "c"]);
    server.until(|| server.children(PRODUCERS).len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_put_under_way_when_its_session_ends_has_an_unknown_outcome() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, client, _) = setup().await;
        let producer = filled(&client, &["a"]).await;
        server.refuse(&client);
        server.lose_next_reply(&client, Operation::Multi, loss);
        let (doubtful, behind) = (producer.clone(), producer.clone());
        let doubtful = tokio::spawn(async move { doubtful.put("b").await });
        tokio::time::sleep(SOON).await;
        let behind = tokio::spawn(async move { behind.put("c").await });
        tokio::time::sleep(T).await;
        server.heal();
        let error = within("it ends", T, doubtful).await.expect("no panic").expect_err("the outcome is unknown");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        within("it is put", T, behind).await.expect("no panic").expect("it was never sent before");
        let expected: &[&str] = if loss == Loss::Applied { &["a", "b", "c"] } else { &["a", "c"] };
        assert_eq!(texts(&server), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_was_not_awaited_is_reported_by_the_next_flush_once() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &["a"]).await;
    server.refuse(&client);
    server.lose_next_reply(&client, Operation::Multi, Loss::Applied);
    drop(producer.enqueue("b").await.expect("enqueued"));
    tokio::time::sleep(T).await;
    server.heal();
    let error = within("it ends", T, producer.flush()).await.expect_err("the outcome is unknown");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    within("nothing else is left", SOON, producer.flush()).await.expect("told already");
    // Until it is connected again the client tells why it is not.
    server.until(|| client.connection_state().is_connected()).await;
    assert_eq!(client.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn a_flush_reports_all_failures_that_were_not_awaited_and_a_close_those_after_it() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &["a"]).await;
    server.deny(PATH);
    for _ in 0..40 {
        drop(producer.enqueue("b").await.expect("enqueued"));
    }
    let awaited = producer.enqueue("b").await.expect("enqueued");
    let error = within("it ends", T, producer.flush()).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    let text = error.to_string();
    assert!(text.contains("40 puts") && text.contains("(16 times)") && text.ends_with("and 24 more"), "{text}");
    let Error::Unawaited { errors, total, .. } = error else { panic!("{error}") };
    assert_eq!((errors.len(), total), (16, 40));
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::NoAuth), "{errors:?}");
    assert_eq!(awaited.await.expect_err("no permission").kind(), ErrorKind::NoAuth);
    within("nothing else is left", SOON, producer.flush()).await.expect("told already");
    // One whose outcome is unknown is told in any case.
    for _ in 0..20 {
        drop(producer.enqueue("c").await.expect("enqueued"));
    }
    tokio::time::sleep(SOON).await;
    server.allow(PATH);
    server.refuse(&client);
    server.lose_next_reply(&client, Operation::Multi, Loss::Applied);
    drop(producer.enqueue("d").await.expect("enqueued"));
    tokio::time::sleep(T).await;
    server.heal();
    let error = within("it closes", T, producer.close()).await.expect_err("the outcome is unknown");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(matches!(error, Error::Unawaited { total: 21, .. }), "{error}");
    within("it is closed", SOON, producer.close()).await.expect("told already");
    assert_eq!(texts(&server), ["a", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_crashed_consumers_items_are_free_without_any_put() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b"]).await;
    let crashing = queue(&one).consumer();
    let held = taken(&crashing).await;
    let other = queue(&two).consumer();
    let mut waiting = Box::pin(other.take());
    let second = within("the other one is free", SOON, &mut waiting).await.expect("an item");
    assert_eq!(second.item(), "b");
    let mut waiting = Box::pin(other.take());
    still_pending("another has it", &mut waiting).await;
    server.freeze_client(&one);
    let again = within("it is free", T * 2, waiting).await.expect("an item");
    assert_eq!((again.item().as_str(), again.attempt()), ("a", 2), "the one that ended with its session counts");
    acked(again).await;
    acked(second).await;
    server.thaw_client(&one);
    let error = within("it is too late", T * 2, held.ack()).await.expect_err("lost");
    assert!(error.is_lost() || error.kind() == ErrorKind::OutcomeUnknown, "{error}");
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_consumer_whose_session_is_killed_is_told_and_continues_with_the_next_one() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let (server, _, two) = setup().await;
        let one = client_with(&server, policy).await;
        let _producer = filled(&two, &["a"]).await;
        let consumer = queue(&one).consumer();
        let held = taken(&consumer).await;
        server.expire_session(&one);
        within("it is told", T, held.lost()).await;
        assert!(!held.is_held());
        let refused = one.transaction().check(&held.fence()).set_data("/queues", "late", None).commit().await;
        assert!(refused.is_err());
        let error = within("it is too late", SOON, held.ack()).await.expect_err("lost");
        assert_eq!((error.kind(), error.is_lost()), (ErrorKind::SessionLost, true), "{error}");
        assert_eq!(drained(&consumer, 1).await, ["a"]);
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_take_waits_through_the_loss_of_a_session() {
    let (server, one, two) = setup().await;
    let consumer = queue(&one).consumer();
    let mut waiting = Box::pin(consumer.take());
    still_pending("there is nothing", &mut waiting).await;
    server.expire_session(&one);
    still_pending("there is nothing", &mut waiting).await;
    let _producer = filled(&two, &["a"]).await;
    acked(within("it comes", T, waiting).await.expect("an item")).await;
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_cut_off_says_no_before_another_has_the_item() {
    let server = zookeeper_recipes::testing::TestingServer::start();
    make_directories(&server);
    let (one, two) = (client_with(&server, ErrorPolicy::Session).await, server.client().await.expect("a client"));
    let _producer = filled(&two, &["a"]).await;
    let consumer = builder(&one).prefetch(0).build().expect("a queue").consumer();
    let held = taken(&consumer).await;
    let other = queue(&two).consumer();
    let mut waiting = Box::pin(other.take());
    still_pending("another has it", &mut waiting).await;
    server.black_hole(&one);
    within("it is told", T, held.lost()).await;
    assert_eq!(server.children(CLAIMS).len(), 1, "before the ensemble forgets");
    assert!(tokio::time::timeout(Duration::from_millis(10), &mut waiting).await.is_err());
    acked(within("it is free", T * 2, waiting).await.expect("an item")).await;
}
