//! Bystanders that follow who leads, over connections and sessions that a real server ends, and against its ACLs. The
//! rest is shown in memory.

use std::time::Duration;

use futures::StreamExt;
use zookeeper::{Acl, AuthId, Permission};
use zookeeper_recipes::leader_latch::{Error, LeaderStream, observe_leader};
use zookeeper_recipes::{ConnectionState, ErrorKind, ErrorPolicy};

use super::fixture::{A_WHILE, Fixture, SOON, States, leads, waits, was_cut_off_and_came_back};
use crate::support::within;

/// The id of the next leader.
async fn next(leaders: &mut LeaderStream) -> Option<String> {
    let next = within("the next leader is seen", SOON, leaders.next()).await;
    let leader = next.expect("the stream continues").expect("no error");
    assert!(leader.as_ref().is_none_or(|leader| leader.is_leader));
    leader.map(|leader| leader.id)
}

/// For a while nothing comes.
async fn silent(leaders: &mut LeaderStream) {
    let next = tokio::time::timeout(A_WHILE, leaders.next()).await;
    assert!(next.is_err(), "{next:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bystander_survives_a_reconnect_and_the_end_of_its_session() {
    let fixture = Fixture::new("survivor").await;
    let (proxy, bystander) = fixture.client_behind_proxy(Duration::from_secs(4), ErrorPolicy::Standard).await;
    let mut states = States::of(&bystander);
    let client = fixture.client().await;
    let mut latches = Vec::new();
    for id in ["one", "two", "three", "four"] {
        let latch = fixture.latch(&client, id);
        if latches.is_empty() {
            leads(&latch).await;
        } else {
            waits(&latch).await;
        }
        latches.push(latch);
    }
    let mut leaders = observe_leader(&bystander, &fixture.path).expect("a good path");
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
async fn what_may_not_be_seen_is_an_error_that_comes_last() {
    let fixture = Fixture::new("hidden").await;
    let hidden = [Acl::new(Permission::CREATE, AuthId::anyone())];
    fixture.observer.create_with_acl(&fixture.path, b"", &hidden).await;
    let client = fixture.client().await;
    let mut leaders = observe_leader(&client, &fixture.path).expect("a good path");
    match within("the error comes", SOON, leaders.next()).await {
        Some(Err(Error::Client { error: source, .. })) => assert_eq!(source.kind(), ErrorKind::NoAuth),
        other => panic!("{other:?}"),
    }
    assert!(leaders.next().await.is_none());
}
