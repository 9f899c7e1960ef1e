//! Sessions come and go; the client stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, poll};
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{ConnectionState, ConnectionStates, CreateMode, ErrorKind, ErrorPolicy, Heartbeat};

use super::fixture::{Fixture, SOON, T, builder};
use crate::support::{Fault, Observer, Proxy, ZooKeeper, eventually, unique_path, within};

async fn next(states: &mut ConnectionStates) -> ConnectionState {
    within("another state", SOON, states.next()).await.expect("the client is open").expect("nothing was missed")
}

#[tokio::test(flavor = "current_thread")]
async fn the_session_is_known_as_soon_as_the_client_is() {
    let server = ZooKeeper::shared().await;
    let client = builder(&server.connect_string()).connect().await.unwrap();
    assert!(client.session_id().is_some());
    assert_eq!(client.session_timeout(), Some(T));
    assert!(!client.is_closed());
}

#[test]
fn a_client_that_outlives_its_runtime_returns_an_error_and_blocks_no_caller() {
    let first = tokio::runtime::Runtime::new().unwrap();
    let (client, latch, _server) = first.block_on(async {
        let server = ZooKeeper::shared().await;
        let client = builder(&server.connect_string()).connect().await.unwrap();
        let latch = LeaderLatch::builder(&client, unique_path("outlived")).start().unwrap();
        within("leadership", SOON, latch.wait_for_leadership()).await.unwrap();
        (client, latch, server)
    });
    first.shutdown_background();
    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(async {
        eventually("the lease ends", SOON, async || !latch.has_leadership()).await;
        let waited = within("an answer", SOON, latch.wait_for_leadership()).await;
        assert!(matches!(waited, Err(zookeeper_recipes::leader_latch::Error::Closed { .. })), "{waited:?}");
        within("close returns", SOON, latch.close()).await.ok();
        let read = within("an answer", SOON, client.get("/")).await.expect_err("the client cannot read");
        assert!(read.kind() == ErrorKind::Closed && read.to_string().contains("runtime"), "{read}");
        let closed = within("an answer", SOON, client.close()).await.expect_err("the server cannot be told");
        assert_eq!(closed.kind(), ErrorKind::ConnectionLoss, "{closed}");
        within("an answer", SOON, client.get("/")).await.expect_err("the client cannot read");
    });
    assert!(client.is_closed() && client.connection_state() == ConnectionState::Lost);
    drop((latch, client));
}

#[tokio::test]
async fn a_cut_is_suspended_and_reconnected_with_the_same_session() {
    let fixture = Fixture::new().await;
    let Fixture { proxy, client, .. } = &fixture;
    let mut states = client.connection_states();
    let session = client.session_id();
    assert_eq!(next(&mut states).await, ConnectionState::Connected);
    for _ in 0..5 {
        proxy.cut().await;
        assert_eq!(next(&mut states).await, ConnectionState::Suspended);
        assert_eq!(next(&mut states).await, ConnectionState::Reconnected);
    }
    assert_eq!(client.session_id(), session);
}

#[tokio::test]
async fn an_expired_session_is_lost_before_a_new_one_is_told() {
    let fixture = Fixture::new().await;
    let Fixture { proxy, client, .. } = &fixture;
    let mut states = client.connection_states();
    let session = client.session_id();
    assert_eq!(next(&mut states).await, ConnectionState::Connected);
    proxy.kill_session().await;
    let mut seen = vec![next(&mut states).await];
    // The connection may come and go with the old session first.
    while !seen.contains(&ConnectionState::Lost) || seen.last() != Some(&ConnectionState::Reconnected) {
        seen.push(next(&mut states).await);
    }
    assert_ne!(client.session_id(), session);
    let lost = seen.iter().position(|state| *state == ConnectionState::Lost).expect("lost");
    assert_eq!(seen[lost + 1..], [ConnectionState::Reconnected]);
    assert!(seen[..lost].contains(&ConnectionState::Suspended), "{seen:?}");
    client.create(&unique_path("after"), b"", CreateMode::Ephemeral).await.expect("the new session works");
}

#[tokio::test]
async fn a_server_that_stays_silent_costs_the_session() {
    let fixture = Fixture::new().await;
    let Fixture { proxy, client, outside, .. } = &fixture;
    let path = unique_path("ghost");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let mut states = client.connection_states();
    assert_eq!(next(&mut states).await, ConnectionState::Connected);
    let session = client.session_id();
    proxy.set(Fault::BlackHole).await;
    assert_eq!(next(&mut states).await, ConnectionState::Suspended);
    assert_eq!(next(&mut states).await, ConnectionState::Lost);
    proxy.set(Fault::Pass).await;
    assert_eq!(next(&mut states).await, ConnectionState::Reconnected);
    assert_ne!(client.session_id(), session);
    outside.wait_until_gone(&path).await;
}

#[tokio::test]
async fn a_listener_hears_every_state_and_a_panicking_one_is_reported_and_removed() {
    let fixture = Fixture::new().await;
    let Fixture { proxy, client, .. } = &fixture;
    let (heard, calls) = (Arc::new(std::sync::Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let listener = {
        let heard = Arc::clone(&heard);
        client.add_listener(move |state: ConnectionState| {
            heard.lock().unwrap().push(state);
            std::future::ready(())
        })
    };
    {
        let calls = Arc::clone(&calls);
        client.add_listener(move |_: ConnectionState| {
            calls.fetch_add(1, Ordering::SeqCst);
            async { panic!("a listener's own fault") }
        });
    }
    proxy.cut().await;
    let expected = [ConnectionState::Connected, ConnectionState::Suspended, ConnectionState::Reconnected];
    eventually("all states are heard", SOON, async || heard.lock().unwrap()[..] == expected).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let error = client.last_error().expect("the panic is reported");
    assert!(error.to_string().contains("a listener's own fault"), "{error}");

    listener.remove();
    let mut states = client.connection_states();
    proxy.cut().await;
    while next(&mut states).await != ConnectionState::Suspended {}
    assert_eq!(next(&mut states).await, ConnectionState::Reconnected);
    assert_eq!(heard.lock().unwrap().len(), expected.len(), "a removed listener hears no more");
}

#[tokio::test]
async fn close_tells_the_server_and_everything_afterwards_says_closed() {
    let fixture = Fixture::new().await;
    let Fixture { client, outside, .. } = &fixture;
    let path = unique_path("closing");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let mut states = client.connection_states();
    client.close().await.unwrap();
    assert!(!outside.exists(&path).await, "the server was told before close returned");
    client.close().await.expect("closing twice is fine");
    assert_eq!(client.get(&path).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(client.session_id(), None);
    assert!(client.is_closed());
    let started = LeaderLatch::builder(client, &path).start();
    assert!(matches!(started, Err(zookeeper_recipes::leader_latch::Error::Closed { .. })));
    assert_eq!(next(&mut states).await, ConnectionState::Connected);
    assert!(within("the end of the states", SOON, states.next()).await.is_none());
}

#[tokio::test]
async fn what_was_sent_before_a_close_is_carried_out_and_its_callers_are_told() {
    let fixture = Fixture::new().await;
    let Fixture { client, outside, .. } = &fixture;
    let dir = &unique_path("closed");
    outside.create(dir, b"").await;
    let creates =
        (0..3_000).map(|n| async move { client.create(&format!("{dir}/{n}"), "", CreateMode::Persistent).await });
    // All are sent when they are polled first.
    let mut creates = Box::pin(tokio::task::unconstrained(join_all(creates)));
    assert!(poll!(&mut creates).is_pending());
    let (created, closed) = within("all end", SOON, async { tokio::join!(creates, client.close()) }).await;
    closed.expect("the server is told");
    let failed: Vec<_> = created.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{} of 3 000 are not told as carried out: {}", failed.len(), failed[0]);
    assert_eq!(outside.children(dir).await.len(), 3_000);
}

#[tokio::test]
async fn a_request_that_is_held_unpolled_does_not_keep_the_session_open() {
    let fixture = Fixture::with(|builder| builder.session_timeout(Duration::from_secs(30))).await;
    let Fixture { client, outside, .. } = &fixture;
    let path = unique_path("held");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let mut held = Box::pin(client.get(&path));
    assert!(futures::poll!(held.as_mut()).is_pending(), "handed over");
    client.close().await.expect("the server is told");
    assert!(!outside.exists(&path).await);
    within("the request ends", SOON, held).await.expect("it was answered");
}

#[tokio::test]
async fn a_pause_of_the_server_does_not_cost_an_idle_client_its_session_when_a_recipe_starts() {
    let long = Duration::from_secs(6);
    let fixture = Fixture::with(|builder| builder.session_timeout(long)).await;
    let Fixture { proxy, client, .. } = &fixture;
    let mut states = client.connection_states();
    assert_eq!(next(&mut states).await, ConnectionState::Connected);
    let session = client.session_id();
    // Nothing depends on the lease, so it runs out.
    tokio::time::sleep(long).await;
    proxy.set(Fault::BlackHole).await;
    let latch = LeaderLatch::builder(client, unique_path("idle")).start().unwrap();
    // Silence for three ticks, but less than what breaks a connection.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    proxy.set(Fault::Pass).await;
    within("leadership", SOON, latch.wait_for_leadership()).await.unwrap();
    assert_eq!(client.session_id(), session);
}

#[tokio::test]
async fn a_close_that_no_server_hears_says_so() {
    let wait = Duration::from_secs(1);
    let fixture = Fixture::with(|builder| builder.connection_timeout(wait)).await;
    let Fixture { proxy, client, .. } = &fixture;
    proxy.set(Fault::Refuse).await;
    eventually("the loss is seen", SOON, async || client.connection_state() == ConnectionState::Suspended).await;
    let error = within("an answer", SOON, client.close()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
}

#[tokio::test]
async fn the_last_clone_closes_the_session_in_the_background() {
    let Fixture { client, outside, proxy: _proxy, server: _server } =
        Fixture::with(|builder| builder.session_timeout(Duration::from_secs(30))).await;
    let path = unique_path("dropped");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let clone = client.clone();
    drop(client);
    assert!(clone.exists(&path).await.unwrap().is_some(), "a clone keeps it open");
    drop(clone);
    within("the node is removed long before the session timeout", SOON, outside.wait_until_gone(&path)).await;
}

#[tokio::test(flavor = "current_thread")]
async fn with_a_runtime_of_its_own_the_session_survives_a_blocked_one() {
    let server = ZooKeeper::shared().await;
    let timeout = Duration::from_secs(2);
    let options = || builder(&server.connect_string()).session_timeout(timeout).error_policy(ErrorPolicy::Session);
    let own = options().dedicated_runtime(true).connect().await.unwrap();
    let shared = options().connect().await.unwrap();
    let election = unique_path("blocked");
    let latch = LeaderLatch::builder(&own, &election).start().unwrap();
    let leadership = within("leadership", SOON, latch.wait_for_leadership()).await.unwrap();
    let sessions = (own.session_id(), shared.session_id());
    // A caller that blocks the one thread of its runtime.
    std::thread::sleep(timeout * 2);
    assert!(leadership.is_held(), "its session was kept all the time");
    eventually("the other client notices", SOON, async || shared.session_id().is_some_and(|id| Some(id) != sessions.1))
        .await;
    assert_eq!(own.session_id(), sessions.0);
    assert!(leadership.is_held());
    own.close().await.unwrap();
}

#[tokio::test]
async fn heartbeats_are_sent_only_while_a_recipe_is_in_use() {
    for heartbeat in [Heartbeat::Sync, Heartbeat::Quorum] {
        let server = ZooKeeper::shared().await;
        let timeout = Duration::from_secs(2);
        let client =
            builder(&server.connect_string()).session_timeout(timeout).heartbeat(heartbeat).connect().await.unwrap();
        // One session timeout without any recipe.
        tokio::time::sleep(timeout).await;
        assert_eq!(client.request_counts().heartbeats, 0);
        let latch = LeaderLatch::builder(&client, unique_path("beats")).start().unwrap();
        let leadership = within("leadership", SOON, latch.wait_for_leadership()).await.unwrap();
        eventually("it watches its node", SOON, async || client.request_counts().watches == 1).await;
        let before = client.request_counts();
        // Three session timeouts with one: six heartbeats in each.
        tokio::time::sleep(timeout * 3).await;
        let sent = client.request_counts() - before;
        assert!((12..=21).contains(&sent.heartbeats), "{heartbeat:?}: {}", sent.heartbeats);
        assert_eq!(sent.total(), 0, "a leader at rest sends nothing else");
        assert!(leadership.is_held());
        latch.close().await.unwrap();
    }
}

#[tokio::test]
async fn the_states_are_the_same_through_several_sessions() {
    let server = ZooKeeper::shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = builder(&proxy.connect_string()).session_timeout(T).connect().await.unwrap();
    let outside = Observer::connect(&server.connect_string()).await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let session = client.session_id().expect("a session");
        assert!(!sessions.contains(&session));
        sessions.push(session);
        proxy.kill_session().await;
        eventually("a new session", SOON, async || client.session_id().is_some_and(|id| id != session)).await;
    }
    let path = unique_path("works");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(outside.owner(&path).await, client.session_id());
}
