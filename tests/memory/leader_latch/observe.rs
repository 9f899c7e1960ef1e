//! Bystanders that follow who leads.

use futures::StreamExt;
use zookeeper_recipes::leader_latch::{Error, LeaderStream, observe_leader};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ConnectionState, ErrorKind};

use super::fixture::{
    PATH, States, latch, latch_at, leads, line_becomes, node_of, setup, waits, was_cut_off_and_came_back,
};
use crate::fixture::{SOON, T, within};

/// The id of the next leader.
async fn next(leaders: &mut LeaderStream) -> Option<String> {
    let next = within("the next leader is seen", T, leaders.next()).await;
    let leader = next.expect("the stream continues").expect("no error");
    assert!(leader.as_ref().is_none_or(|leader| leader.is_leader));
    leader.map(|leader| leader.id)
}

/// For a while nothing comes.
async fn silent(leaders: &mut LeaderStream) {
    let next = tokio::time::timeout(SOON, leaders.next()).await;
    assert!(next.is_err(), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn a_bystander_sees_every_change_of_leader_and_when_there_is_none() {
    let server = TestingServer::start();
    let bystander = server.client().await.expect("a client");
    let mut leaders = observe_leader(&bystander, PATH).expect("a good path");
    assert_eq!(next(&mut leaders).await, None, "the path does not exist yet");
    silent(&mut leaders).await;

    let client = server.client().await.expect("a client");
    let first = latch(&client, "first");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("first"));
    let second = latch(&client, "second");
    waits(&second).await;
    let third = latch(&client, "third");
    waits(&third).await;
    // Who waits or leaves behind the leader is no change of leader; nor are written data.
    second.close().await.expect("closed");
    let node = node_of(&first);
    server.set_data_by_hand(&node, b"written").expect("it exists");
    silent(&mut leaders).await;

    first.close().await.expect("closed");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("third"));
    third.close().await.expect("closed");
    assert_eq!(next(&mut leaders).await, None);
    // The server removes the empty directory: there is still no leader.
    server.until(|| server.stat(PATH).is_none()).await;
    silent(&mut leaders).await;
    let again = latch(&client, "again");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("again"));
    assert_eq!(bystander.request_counts().creates, 0);

    // A participant sees the same.
    let mut own = again.observe_leader();
    assert_eq!(next(&mut own).await.as_deref(), Some("again"));
}

#[tokio::test(start_paused = true)]
async fn a_bystander_survives_a_reconnect_and_the_end_of_its_session() {
    let (server, [bystander, client]) = setup().await;
    let mut states = States::of(&bystander);
    let mut latches = Vec::new();
    for id in ["one", "two", "three", "four"] {
        let latch = latch(&client, id);
        if latches.is_empty() {
            leads(&latch).await;
        } else {
            waits(&latch).await;
        }
        latches.push(latch);
    }
    let mut leaders = observe_leader(&bystander, PATH).expect("a good path");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("one"));

    assert_eq!(server.disconnect(&bystander), 1);
    was_cut_off_and_came_back(&bystander, &mut states).await;
    silent(&mut leaders).await;
    latches[0].close().await.expect("closed");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("two"));

    // A change while it is away, and another session.
    let session = bystander.session_id();
    server.refuse(&bystander);
    assert!(server.expire_session(&bystander));
    latches[1].close().await.expect("closed");
    server.heal();
    states.wait_for(ConnectionState::Lost).await;
    assert_eq!(next(&mut leaders).await.as_deref(), Some("three"));
    assert_ne!(bystander.session_id(), session);
    latches[2].close().await.expect("closed");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("four"));
}

#[tokio::test(start_paused = true)]
async fn the_observation_ends_when_the_client_is_closed() {
    let (_server, [bystander, client]) = setup().await;
    let latch = latch(&client, "leader");
    leads(&latch).await;
    let mut leaders = observe_leader(&bystander, PATH).expect("a good path");
    assert_eq!(next(&mut leaders).await.as_deref(), Some("leader"));
    let (ended, closed) = tokio::join!(within("the stream ends", SOON, leaders.next()), bystander.close());
    assert!(ended.is_none(), "{ended:?}");
    closed.expect("the server is told");
    assert!(leaders.next().await.is_none(), "it stays ended");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_seen_is_an_error_that_comes_last() {
    let (server, [client]) = setup().await;
    server.deny(PATH);
    let mut leaders = observe_leader(&client, PATH).expect("a good path");
    match within("the error comes", SOON, leaders.next()).await {
        Some(Err(Error::Client { error: source, .. })) => assert_eq!(source.kind(), ErrorKind::NoAuth),
        other => panic!("{other:?}"),
    }
    assert!(leaders.next().await.is_none());
    let malformed = observe_leader(&client, "relative");
    assert!(matches!(malformed, Err(Error::Client { error: source, .. }) if source.kind() == ErrorKind::InvalidPath));
}

#[tokio::test(start_paused = true)]
async fn leader_and_participants_answer_for_a_path_below_a_namespace() {
    let (server, []) = setup().await;
    let inside = Client::builder_for_testing(&server).namespace(PATH).connect().await.expect("a client");
    let latch = latch_at(&inside, "/line", "inside");
    leads(&latch).await;
    let node = node_of(&latch);
    assert!(node.starts_with("/line/_c_"), "{node}");
    assert!(server.stat(&format!("{PATH}{node}")).is_some());
    let leader = latch.leader().await.expect("read").expect("there is a leader");
    assert_eq!((leader.id.as_str(), leader.path.as_str()), ("inside", node.as_str()));
    line_becomes(&latch, &["inside"]).await;
    let mut leaders = observe_leader(&inside, "/line").expect("a good path");
    let seen = within("the leader is seen", SOON, leaders.next()).await;
    assert_eq!(seen, Some(Ok(Some(leader))));
}
