//! A writer that becomes a reader: none writes in between.

use std::time::Duration;

use zookeeper_recipes::read_write_lock::Error;
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::{CreateMode, ErrorPolicy};

use super::fixture::{PATH, gets, line, line_has, lock, reading, setup, waits_to_read, waits_to_write, writing};
use crate::fixture::{SOON, T, client_with, polled, requests, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_downgrade_exchanges_the_node_for_one_with_the_same_number_in_one_request() {
    let (server, [client]) = setup().await;
    drop(writing(&client).await);
    line_has(&server, 0).await;
    let writer = writing(&client).await;
    let (token, fence) = (writer.fencing_token(), writer.fence());
    server.create_by_hand("/work", "", CreateMode::Persistent).expect("a new node");
    server.clear_records();
    let reader = writer.downgrade().await.expect("it reads");
    assert_eq!(requests(&server), [Operation::Multi]);
    assert_eq!(line(&server), ["__READ__0000000001"]);
    assert!(reader.is_held() && server.stat(reader.node_path()).is_some());
    assert_eq!(reader.fencing_token(), token);
    let write = client.transaction().check(&fence).set_data("/work", "1", None);
    write.commit().await.expect_err("it writes no longer");
    let write = client.transaction().check(&reader.fence()).set_data("/work", "2", None);
    write.commit().await.expect("it reads");
    reader.release().await.expect("it was held");
    assert_eq!((server.children(PATH).len(), server.watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn readers_that_wait_come_in_and_a_writer_between_them_does_not() {
    let (_server, [one, two, three, four]) = setup().await;
    let writer = writing(&one).await;
    let early = waits_to_read(&two).await;
    let mut other = waits_to_write(&three).await;
    let mut late = waits_to_read(&four).await;
    let reader = writer.downgrade().await.expect("it reads");
    let early = gets(early).await;
    still_pending("two read", &mut other).await;
    still_pending("a writer is before it", &mut late).await;
    assert!(reader.is_held() && early.is_held());
    drop(early);
    still_pending("one reads", &mut other).await;
    reader.release().await.expect("it was held");
    drop(gets(other).await);
    drop(gets(late).await);
}

#[tokio::test(start_paused = true)]
async fn a_writer_directly_behind_does_not_take_the_deletion_for_its_turn() {
    let (_server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    let mut other = waits_to_write(&two).await;
    let reader = writer.downgrade().await.expect("it reads");
    still_pending("one reads", &mut other).await;
    assert!(reader.is_held());
    drop(reader);
    drop(gets(other).await);
}

#[tokio::test(start_paused = true)]
async fn a_watched_guard_is_downgraded_too_and_the_reader_hears_of_its_own_loss() {
    let (server, [client]) = setup().await;
    let writer = writing(&client).await;
    writer.run(tokio::time::sleep(SOON)).await.expect("it is held");
    let reader = writer.downgrade().await.expect("it reads");
    still_pending("it is held", &mut Box::pin(reader.lost())).await;
    server.delete_by_hand(reader.node_path()).expect("it is there");
    within("it is told", SOON, reader.lost()).await;
    assert!(!reader.is_held());
    assert!(matches!(reader.release().await, Err(Error::Lost { .. })));
    tokio::time::sleep(SOON).await;
    assert_eq!((server.children(PATH).len(), server.watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_was_lost_cannot_be_downgraded() {
    for watched in [true, false] {
        let (server, [client]) = setup().await;
        let writer = writing(&client).await;
        if watched {
            writer.run(tokio::time::sleep(SOON)).await.expect("it is held");
        }
        server.delete_by_hand(writer.node_path()).expect("it is there");
        // Without a watch it learns of it by the refusal.
        tokio::time::sleep(if watched { SOON } else { Duration::ZERO }).await;
        let downgraded = within("an answer", SOON, writer.downgrade()).await;
        assert!(matches!(downgraded, Err(Error::Lost { .. })), "{downgraded:?}");
        tokio::time::sleep(SOON).await;
        assert_eq!((server.children(PATH).len(), server.watches()), (0, 0));
        drop(reading(&client).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_whose_answer_is_lost_ends_with_one_node() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, [two]) = setup().await;
        let one = client_with(&server, ErrorPolicy::Session).await;
        let writer = writing(&one).await;
        let mut other = waits_to_write(&two).await;
        server.lose_next_reply(&one, Operation::Multi, loss);
        let reader = within("it reads", T, writer.downgrade()).await.expect("it reads");
        assert_eq!(server.lost_replies(), 1, "{loss:?}");
        assert!(reader.is_held());
        assert_eq!(line(&server)[0], "__READ__0000000000", "{loss:?}");
        assert_eq!(line(&server).len(), 2, "{loss:?}");
        still_pending("one reads", &mut other).await;
        reader.release().await.expect("it was held");
        drop(gets(other).await);
        line_has(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn under_the_standard_policy_a_downgrade_that_loses_its_connection_loses_the_lock_and_leaves_nothing() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, [one, two]) = setup().await;
        let writer = writing(&one).await;
        server.lose_next_reply(&one, Operation::Multi, loss);
        let downgraded = within("an answer", T, writer.downgrade()).await;
        assert!(matches!(downgraded, Err(Error::Lost { .. })), "{loss:?}: {downgraded:?}");
        let other = within("the other writes", T, lock(&two).write().acquire()).await.expect("free");
        assert_eq!(line(&server).len(), 1, "{loss:?}");
        drop(other);
    }
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_dropped_at_any_poll_releases_the_lock() {
    for watched in [true, false] {
        for polls in 0..12 {
            let (server, [one, two]) = setup().await;
            let writer = writing(&one).await;
            if watched {
                writer.run(tokio::time::sleep(SOON)).await.expect("it is held");
            }
            drop(polled(polls, writer.downgrade()).await);
            let other = gets(Box::pin(async move { lock(&two).write().acquire().await })).await;
            assert_eq!(line(&server).len(), 1, "after {polls} polls");
            drop(other);
            line_has(&server, 0).await;
            tokio::time::sleep(SOON).await;
            assert_eq!(server.watches(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_whose_session_ends_fails_and_leaves_nothing() {
    let (server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    server.refuse(&one);
    server.disconnect(&one);
    let downgraded = within("an answer", T * 2, writer.downgrade()).await;
    assert!(matches!(downgraded, Err(Error::Lost { .. })), "{downgraded:?}");
    server.heal();
    let other = within("the other writes", T * 2, lock(&two).write().acquire()).await.expect("free");
    assert_eq!(line(&server).len(), 1);
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_that_nothing_answers_ends_with_the_lock() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let (server, [two]) = setup().await;
        let one = client_with(&server, policy).await;
        let writer = writing(&one).await;
        server.black_hole(&one);
        let downgraded = within("an answer", T * 2, writer.downgrade()).await;
        assert!(matches!(downgraded, Err(Error::Lost { .. })), "{policy:?}: {downgraded:?}");
        drop(within("the other writes", T * 2, lock(&two).write().acquire()).await.expect("free"));
        server.heal();
        line_has(&server, 0).await;
    }
}
