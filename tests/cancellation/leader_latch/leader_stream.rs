//! The stream of leaders, for participants and observers.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::timeout;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::leader_latch::observe_leader;

use super::{LINE, leader_of, leads, waiter_of};
use crate::harness::{Run, cases};

cases! {
    observe: "LeaderStream::next", at least 180 drops, 150 faults;
    observe_until_dropped: "LeaderStream::next", at least 490 drops, 390 faults;
    observe_without_a_directory: "LeaderStream::next", at least 750 drops, 630 faults;
}

/// A stream whose `next` was dropped continues with the latest leader, and yields no leader twice in a row.
async fn observe(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let other = run.other_client().await;
    let (first, _) = leader_of(&other, "first").await;
    let second = waiter_of(&other, "second").await;
    let watches = run.settled_watches().await;
    let mut leaders = observe_leader(&client, LINE).expect("a good path");
    let mut seen = Vec::new();
    seen.extend(run.cut(leaders.next()).await.done().flatten());
    // The stream reads again, and sees the same leader.
    run.server().disconnect(&client);
    seen.extend(timeout(Duration::from_secs(5), leaders.next()).await.ok().flatten());
    first.close().await.expect("closed");
    while seen.last().is_none_or(|leader| !matches!(leader, Ok(Some(leader)) if leader.id == "second")) {
        seen.push(leaders.next().await.expect("the stream continues"));
    }
    let ids: Vec<_> = seen.into_iter().map(|seen| seen.expect("no error").map(|leader| leader.id)).collect();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    drop(leaders);
    // A leader that had waited watches its own node; no other node is ahead of it any more.
    run.in_the_end("only the leader watches", || run.server().watches() < watches).await;
    drop(second);
}

async fn observe_until_dropped(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let other = run.other_client().await;
    let (first, _) = leader_of(&other, "first").await;
    let second = waiter_of(&other, "second").await;
    let watches = run.settled_watches().await;
    let mut leaders = observe_leader(&client, LINE).expect("a good path");
    run.later(&other, Duration::from_millis(40), move |_| drop(first));
    let look = async move { (leaders.next().await, leaders.next().await) };
    drop(run.cut(look).await);
    run.in_the_end("no watch of the stream is left", || run.server().watches() < watches).await;
    assert!(leads(&second).await.is_held());
}

/// The stream waits for the directory, for a participant, and for the end of both.
async fn observe_without_a_directory(run: &mut Run) {
    let client = run.client().await;
    let mut leaders = observe_leader(&client, LINE).expect("a good path");
    run.later(&client, Duration::from_millis(40), |server| {
        server.create_by_hand(LINE, "", CreateMode::Persistent).expect("the node is created");
    });
    run.later(&client, Duration::from_millis(80), |server| {
        let node = format!("{LINE}/latch-0000000000");
        server.create_by_hand(&node, "by hand", CreateMode::Persistent).expect("the node is created");
    });
    run.later(&client, Duration::from_millis(200), |server| {
        server.delete_by_hand(&format!("{LINE}/latch-0000000000")).expect("the node is deleted");
        server.delete_by_hand(LINE).expect("the node is deleted");
    });
    let look = async move { (leaders.next().await, leaders.next().await) };
    drop(run.cut(look).await);
}
