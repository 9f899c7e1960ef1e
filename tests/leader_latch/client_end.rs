//! Several latches of one client, and what becomes of them when they, or their client, go without a word.

use std::time::{Duration, Instant};

use zookeeper_recipes::leader_latch::{Error, LatchStatus};
use zookeeper_recipes::{Client, ErrorKind};

use super::scene::{Heard, SOON, Scene, builder, connect, ear, hears, latch, leads, reaches, stands};
use crate::support::{eventually, unique_path, within};

/// A session that, if it had to expire, would keep everybody waiting for longer than any test does.
async fn client_with_a_long_session(scene: &Scene) -> Client {
    connect(builder(&scene.server.connect_string(), Duration::from_secs(60))).await
}

/// Whether the server still has a connection of this session.
async fn is_connected(scene: &Scene, session: i64) -> bool {
    let cons = scene.server.four_letter("cons").await;
    cons.contains(&format!("sid=0x{session:x},"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn latches_of_one_client_are_independent_participants() {
    let scene = Scene::new("several").await;
    let client = scene.client().await;
    let first = scene.latch(&client, "first");
    leads(&first).await;
    let second = scene.latch(&client, "second");
    stands(&second).await;
    let elsewhere = latch(&client, &unique_path("elsewhere"), "elsewhere");
    let other = leads(&elsewhere).await;
    assert!(first.has_leadership() && !second.has_leadership());
    first.close().await.expect("closed");
    let leadership = leads(&second).await;
    elsewhere.close().await.expect("closed");
    assert!(!other.is_held());
    assert!(leadership.is_held() && second.has_leadership());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_latch_leaves_the_line_and_its_listeners_hear_nothing() {
    let scene = Scene::new("dropped").await;
    let client = client_with_a_long_session(&scene).await;
    let dropped = scene.latch(&client, "dropped");
    let (listener, mut heard) = ear();
    dropped.add_listener(listener);
    let leadership = leads(&dropped).await;
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(leadership.fencing_token()));
    let middle = scene.latch(&client, "middle");
    stands(&middle).await;
    let last = scene.latch(&client, "last");
    stands(&last).await;

    drop(middle);
    scene.observer.wait_for_children(&scene.path, 2).await;
    drop(dropped);
    leads(&last).await;
    within("its leadership is lost", SOON, leadership.lost()).await;
    assert!(!leadership.is_held());
    scene.observer.wait_for_children(&scene.path, 1).await;
    let end = within("the listener is let go", SOON, heard.recv()).await;
    assert_eq!(end, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_the_client_ends_its_latches_and_others_take_over_at_once() {
    let scene = Scene::new("closed-client").await;
    let client = client_with_a_long_session(&scene).await;
    let leader = scene.latch(&client, "leader");
    let (listener, mut heard) = ear();
    leader.add_listener(listener);
    let leadership = leads(&leader).await;
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(leadership.fencing_token()));
    let waiter = scene.latch(&client, "waiter");
    stands(&waiter).await;
    let other = scene.latch(&scene.client().await, "other");
    stands(&other).await;

    let waiting = waiter.wait_for_leadership();
    let begin = Instant::now();
    let (closed, waited) = tokio::join!(client.close(), within("the waiter is told", SOON, waiting));
    closed.expect("the server is told");
    assert!(matches!(waited, Err(Error::Closed { .. })), "{waited:?}");
    assert!(!leadership.is_held() && !leader.has_leadership());
    leads(&other).await;
    println!("another led {:?} after the close of the leader's client", begin.elapsed());
    within("the leadership is lost", SOON, leadership.lost()).await;
    for latch in [&leader, &waiter] {
        reaches(latch, LatchStatus::Closed).await;
        let waited = latch.wait_for_leadership().await;
        assert!(matches!(waited, Err(Error::Closed { .. })), "{waited:?}");
        within("closing it is fine", SOON, latch.close()).await.expect("closed");
    }
    assert_eq!(hears(&mut heard).await, Heard::NotLeader);
    assert!(matches!(leader.leader().await, Err(Error::Closed { .. })));
    let late = client.transaction().check(&leadership.fence()).delete(&scene.path, None);
    let refused = late.commit().await.expect_err("its session is over");
    assert!(matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Closed), "{refused}");
    assert_eq!(scene.nodes().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_handle_that_goes_ends_the_session_and_a_latch_is_such_a_handle() {
    let scene = Scene::new("last-handle").await;
    let client = client_with_a_long_session(&scene).await;
    let session = client.session_id().expect("a session");
    let clone = client.clone();
    drop(client);
    let kept = scene.latch(&clone, "kept");
    let leadership = leads(&kept).await;
    drop(clone);
    let other = scene.latch(&scene.client().await, "other");
    stands(&other).await;
    // The latch keeps its client: it leads on, and reads.
    assert!(leadership.is_held());
    let leader = kept.leader().await.expect("read").expect("somebody leads");
    assert_eq!(leader.id, "kept");
    assert!(is_connected(&scene, session).await);

    drop(kept);
    leads(&other).await;
    assert!(!leadership.is_held());
    eventually("the session is closed", SOON, || async { !is_connected(&scene, session).await }).await;
    assert_eq!(scene.nodes().await.len(), 1);
}
