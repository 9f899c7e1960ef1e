//! The stream of changes, and holds.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::partition_assigner::{Change, Changes};

use super::fixture::{eager, held, hold, joined, setup, until};
use crate::fixture::{SOON, T, within};

/// What happens, as short text.
async fn next(changes: &mut Changes) -> Option<(&'static str, String)> {
    let change = within("a change", SOON, changes.next()).await?;
    Some(match change {
        Change::Granted { partition } => ("granted", partition.id().to_owned()),
        Change::Revoking { partition, .. } => ("revoking", partition.id().to_owned()),
        Change::Lost { partition } => ("lost", partition.id().to_owned()),
        other => panic!("{other:?}"),
    })
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_what_is_held_then_every_change_then_the_end() {
    let (server, clients) = setup(2).await;
    let one = eager(&clients[0], "one").partitions(["a", "b"]).grace_period(SOON / 2).join().await.expect("it joins");
    hold(&server, &[&one], &[2]).await;
    let mut changes = one.changes();
    let granted = [next(&mut changes).await, next(&mut changes).await];
    assert_eq!(granted, ["a", "b"].map(|name| Some(("granted", name.to_owned()))));
    let two = eager(&clients[1], "two").partitions(["a", "b"]).join().await.expect("it joins");
    let revoked = next(&mut changes).await;
    let Some(("revoking", name)) = revoked else { panic!("{revoked:?}") };
    assert_eq!(next(&mut changes).await, Some(("lost", name.clone())));
    hold(&server, &[&one, &two], &[1, 1]).await;
    two.leave().await;
    assert_eq!(next(&mut changes).await, Some(("granted", name)));
    one.leave().await;
    let mut last = Vec::new();
    while let Some((what, name)) = next(&mut changes).await {
        last.push((what, name));
    }
    let lost = last.iter().filter(|(what, _)| *what == "lost").count();
    assert_eq!(lost, 2, "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_not_released_counts_as_released_after_the_grace_period() {
    let (server, clients) = setup(2).await;
    let one = eager(&clients[0], "one").grace_period(SOON * 5).join().await.expect("it joins");
    hold(&server, &[&one], &[12]).await;
    let all = one.assigned();
    let two = joined(&clients[1], "two").await;
    tokio::time::sleep(SOON * 4).await;
    assert_eq!((held(&one).len(), held(&two).len()), (12, 0));
    hold(&server, &[&one, &two], &[6, 6]).await;
    assert_eq!(all.iter().filter(|partition| partition.lost().now_or_never().is_some()).count(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_released_partition_comes_back_with_a_greater_token_and_its_fence_is_refused() {
    let (server, clients) = setup(1).await;
    let one = joined(&clients[0], "one").await;
    hold(&server, &[&one], &[12]).await;
    server.create_by_hand("/store", "", zookeeper_recipes::CreateMode::Persistent).expect("created");
    let before = one.assigned()[0].clone();
    let write = |fence| clients[0].transaction().check(&fence).set_data("/store", "1", None);
    write(before.fence()).commit().await.expect("it is held");
    before.release();
    assert!(!before.is_held());
    let is_back =
        || one.assigned().iter().any(|now| now.id() == before.id() && now.fencing_token() > before.fencing_token());
    within("it comes back", SOON, server.until(is_back)).await;
    let error = write(before.fence()).commit().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Fenced);
}

/// Under `Standard`, a suspension ends all holds; on the same session the member holds the same nodes again.
#[tokio::test(start_paused = true)]
async fn a_suspension_ends_all_holds_and_the_same_session_begins_them_again() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0], "one").await;
    let two = joined(&clients[1], "two").await;
    hold(&server, &[&one, &two], &[6, 6]).await;
    let before = one.assigned();
    server.refuse(&clients[0]);
    server.disconnect(&clients[0]);
    until("all are lost", || before.iter().all(|partition| !partition.is_held())).await;
    assert!(before.iter().all(|partition| partition.lost().now_or_never().is_some()) && one.assigned().is_empty());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(held(&two).len(), 6, "the session lives, so nothing moves");
    server.heal();
    within("they are held again", T, server.until(|| one.assigned().len() == 6)).await;
    let tokens = |all: &[zookeeper_recipes::partition_assigner::Owned]| -> Vec<i64> {
        all.iter().map(zookeeper_recipes::partition_assigner::Owned::fencing_token).collect()
    };
    assert_eq!(tokens(&before), tokens(&one.assigned()));
    assert!(before.iter().all(|partition| !partition.is_held()), "what was lost stays lost");
    hold(&server, &[&one, &two], &[6, 6]).await;
}
