//! Several latches of one client, and the end of a latch or of its client without a close.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::leader_latch::{Error, LatchStatus};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{Heard, PATH, hears, latch, latch_at, leads, reaches, recorder, setup, waits};
use crate::fixture::{SOON, within};

/// A session that, if it had to expire, would outlast every limit of these tests.
async fn client_with_a_long_session(server: &TestingServer) -> Client {
    Client::builder_for_testing(server).session_timeout(Duration::from_secs(40)).connect().await.expect("a client")
}

#[tokio::test(start_paused = true)]
async fn latches_of_one_client_are_independent_participants() {
    let (_server, [client]) = setup().await;
    let first = latch(&client, "first");
    leads(&first).await;
    let second = latch(&client, "second");
    waits(&second).await;
    let elsewhere = latch_at(&client, "/elections/another", "elsewhere");
    let other = leads(&elsewhere).await;
    assert!(first.has_leadership() && !second.has_leadership());
    first.close().await.expect("closed");
    let leadership = leads(&second).await;
    elsewhere.close().await.expect("closed");
    assert!(!other.is_held());
    assert!(leadership.is_held() && second.has_leadership());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_latch_leaves_the_line_and_its_listeners_hear_nothing() {
    let (server, []) = setup().await;
    let client = client_with_a_long_session(&server).await;
    let dropped = latch(&client, "dropped");
    let (listener, mut heard) = recorder();
    dropped.add_listener(listener);
    let leadership = leads(&dropped).await;
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(leadership.fencing_token()));
    let middle = latch(&client, "middle");
    waits(&middle).await;
    let last = latch(&client, "last");
    waits(&last).await;

    drop(middle);
    within("its node is gone", SOON, server.until(|| server.children(PATH).len() == 2)).await;
    drop(dropped);
    within("the next one leads", SOON, leads(&last)).await;
    within("its leadership is lost", SOON, leadership.lost()).await;
    assert!(!leadership.is_held());
    within("its node is gone", SOON, server.until(|| server.children(PATH).len() == 1)).await;
    let end = within("the listener is let go", SOON, heard.recv()).await;
    assert_eq!(end, None);
}

#[tokio::test(start_paused = true)]
async fn closing_the_client_ends_its_latches_and_others_take_over_at_once() {
    let (server, [bystander]) = setup().await;
    let client = client_with_a_long_session(&server).await;
    let leader = latch(&client, "leader");
    let (listener, mut heard) = recorder();
    leader.add_listener(listener);
    let leadership = leads(&leader).await;
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(leadership.fencing_token()));
    let waiter = latch(&client, "waiter");
    waits(&waiter).await;
    let other = latch(&bystander, "other");
    waits(&other).await;

    let waiting = waiter.wait_for_leadership();
    let begin = Instant::now();
    let (closed, waited) = tokio::join!(client.close(), within("the waiter is told", SOON, waiting));
    closed.expect("the server is told");
    assert!(matches!(waited, Err(Error::Closed { .. })), "{waited:?}");
    assert!(!leadership.is_held() && !leader.has_leadership());
    leads(&other).await;
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    within("the leadership is lost", SOON, leadership.lost()).await;
    for latch in [&leader, &waiter] {
        reaches(latch, LatchStatus::Closed).await;
        let waited = latch.wait_for_leadership().await;
        assert!(matches!(waited, Err(Error::Closed { .. })), "{waited:?}");
        within("closing it is fine", SOON, latch.close()).await.expect("closed");
    }
    assert_eq!(hears(&mut heard).await, Heard::NotLeader);
    assert!(matches!(leader.leader().await, Err(Error::Closed { .. })));
    let late = client.transaction().check(&leadership.fence()).delete(PATH, None);
    let refused = late.commit().await.expect_err("its session is over");
    assert!(matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Closed), "{refused}");
    assert_eq!(server.children(PATH).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_ends_the_session_and_a_latch_is_such_a_handle() {
    let (server, [bystander]) = setup().await;
    let client = client_with_a_long_session(&server).await;
    let session = client.session_id().expect("a session");
    let is_open = || server.sessions().iter().any(|open| open.id == session);
    let clone = client.clone();
    drop(client);
    let kept = latch(&clone, "kept");
    let leadership = leads(&kept).await;
    drop(clone);
    let other = latch(&bystander, "other");
    waits(&other).await;
    // The latch keeps its client, so it still leads, and reads.
    assert!(leadership.is_held());
    let leader = kept.leader().await.expect("read").expect("there is a leader");
    assert_eq!(leader.id, "kept");
    assert!(is_open());

    drop(kept);
    within("the next one leads", SOON, leads(&other)).await;
    assert!(!leadership.is_held());
    within("the session is closed", SOON, server.until(|| !is_open())).await;
    assert_eq!(server.children(PATH).len(), 1);
}
