//! Bystanders that follow who leads.

use std::time::Duration;

use futures::StreamExt;
use zookeeper::{Acl, AuthId, Permission};
use zookeeper_recipes::leader_latch::{Error, LeaderStream, observe_leader};
use zookeeper_recipes::{ConnectionState, ErrorKind, ErrorPolicy};

use super::scene::{A_WHILE, SOON, Scene, States, leads, line_becomes, stands, was_cut_off_and_came_back};
use crate::support::within;

/// The id of the next leader.
async fn next(leaders: &mut LeaderStream) -> Option<String> {
    let next = within("the next leader is seen", SOON, leaders.next()).await;
    let leader = next.expect("the stream goes on").expect("no error");
    assert!(leader.as_ref().is_none_or(|leader| leader.is_leader));
    leader.map(|leader| leader.id)
}

/// For a while nothing comes.
async fn silent(leaders: &mut LeaderStream) {
    let next = tokio::time::timeout(A_WHILE, leaders.next()).await;
    assert!(next.is_err(), "{next:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bystander_sees_every_change_of_leader_and_when_nobody_leads() {
    let scene = Scene::new("bystander").await;
    let bystander = scene.client().await;
    let mut leaders = observe_leader(&bystander, &scene.path).expect("a good path");
    assert_eq!(next(&mut leaders).await, None, "the path does not exist yet");
    silent(&mut leaders).await;

    let client = scene.client().await;
    let first = scene.latch(&client, "first");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("first"));
    let second = scene.latch(&client, "second");
    stands(&second).await;
    let third = scene.latch(&client, "third");
    stands(&third).await;
    // Who waits or leaves behind the leader is no change of leader; nor are written data.
    second.close().await.expect("closed");
    let node = first.our_path().expect("a leader has a node");
    scene.observer.set_data(&node, b"written").await;
    silent(&mut leaders).await;

    first.close().await.expect("closed");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("third"));
    third.close().await.expect("closed");
    assert_eq!(next(&mut leaders).await, None);
    // The server removes the empty directory: still nobody.
    scene.observer.wait_until_gone(&scene.path).await;
    silent(&mut leaders).await;
    let again = scene.latch(&client, "again");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("again"));
    assert_eq!(bystander.request_counts().creates, 0);

    // A participant sees the same.
    let mut own = again.observe_leader();
    assert_eq!(next(&mut own).await.as_deref(), Some("again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bystander_survives_a_reconnect_and_the_end_of_its_session() {
    let scene = Scene::new("survivor").await;
    let (proxy, bystander) = scene.client_behind_proxy(Duration::from_secs(4), ErrorPolicy::Standard).await;
    let mut states = States::of(&bystander);
    let client = scene.client().await;
    let mut latches = Vec::new();
    for id in ["one", "two", "three", "four"] {
        let latch = scene.latch(&client, id);
        if latches.is_empty() {
            leads(&latch).await;
        } else {
            stands(&latch).await;
        }
        latches.push(latch);
    }
    let mut leaders = observe_leader(&bystander, &scene.path).expect("a good path");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("one"));

    proxy.cut().await;
    was_cut_off_and_came_back(&bystander, &mut states).await;
    silent(&mut leaders).await;
    latches[0].close().await.expect("closed");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("two"));

    // A change while it is away, and another session.
    let session = bystander.session_id();
    proxy.kill_session().await;
    latches[1].close().await.expect("closed");
    proxy.cut().await;
    states.wait_for(ConnectionState::Lost).await;
    assert_eq!(next(&mut leaders).await.as_deref(), Some("three"));
    assert_ne!(bystander.session_id(), session);
    latches[2].close().await.expect("closed");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("four"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_observation_ends_when_the_client_is_closed() {
    let scene = Scene::new("ends").await;
    let bystander = scene.client().await;
    let latch = scene.latch(&scene.client().await, "leader");
    leads(&latch).await;
    let mut leaders = observe_leader(&bystander, &scene.path).expect("a good path");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("leader"));
    let (ended, closed) = tokio::join!(within("the stream ends", SOON, leaders.next()), bystander.close());
    assert!(ended.is_none(), "{ended:?}");
    closed.expect("the server is told");
    assert!(leaders.next().await.is_none(), "it stays ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_seen_is_an_error_that_comes_last() {
    let scene = Scene::new("hidden").await;
    let hidden = [Acl::new(Permission::CREATE, AuthId::anyone())];
    scene.observer.create_with_acl(&scene.path, b"", &hidden).await;
    let client = scene.client().await;
    let mut leaders = observe_leader(&client, &scene.path).expect("a good path");
    match within("the error comes", SOON, leaders.next()).await {
        Some(Err(Error::Client { error: source, .. })) => assert_eq!(source.kind(), ErrorKind::NoAuth),
        other => panic!("{other:?}"),
    }
    assert!(leaders.next().await.is_none());
    let malformed = observe_leader(&client, "relative");
    assert!(matches!(malformed, Err(Error::Client { error: source, .. }) if source.kind() == ErrorKind::InvalidPath));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_and_participants_answer_for_a_path_below_a_namespace() {
    let scene = Scene::with_directory("namespace").await;
    let inside = super::scene::builder(&scene.server.connect_string(), Duration::from_secs(10));
    let inside = super::scene::connect(inside.namespace(&scene.path)).await;
    let latch = super::scene::latch(&inside, "/line", "inside");
    leads(&latch).await;
    let node = latch.our_path().expect("a leader has a node");
    assert!(node.starts_with("/line/_c_"), "{node}");
    assert!(scene.observer.exists(&format!("{}{node}", scene.path)).await);
    let leader = latch.leader().await.expect("read").expect("somebody leads");
    assert_eq!((leader.id.as_str(), leader.path.as_str()), ("inside", node.as_str()));
    line_becomes(&latch, &["inside"]).await;
    let mut leaders = observe_leader(&inside, "/line").expect("a good path");
    let seen = within("the leader is seen", SOON, leaders.next()).await;
    assert_eq!(seen, Some(Ok(Some(leader))));
}
