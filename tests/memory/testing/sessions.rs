//! Sessions: `expire_session`, the granted timeout, and the cost of a minute of timeouts.

use std::time::Duration;

use zookeeper_recipes::ConnectionState::{Lost, Reconnected, Suspended};
use zookeeper_recipes::testing::{TestingServer, WatchEvent};
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{States, T, connect, latch, session};

#[tokio::test(start_paused = true)]
async fn expire_session_ends_the_session_with_its_nodes_and_the_client_opens_another() {
    let server = TestingServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    for (client, path) in [(&client, "/mine"), (&other, "/others")] {
        client.create(path, "", CreateMode::Ephemeral).await.unwrap();
    }
    let (mut states, mut others) = (States::of(&client).await, States::of(&other).await);
    let old = client.session_id().expect("a session");
    assert!(server.expire_session(&client));
    states.are(&[Suspended, Lost, Reconnected]).await;
    assert_eq!(server.paths(), ["/others"]);
    let new = client.session_id().expect("the next session");
    assert_ne!(new, old);
    let known: Vec<i64> = server.sessions().iter().map(|session| session.id).collect();
    assert!(known.contains(&new) && !known.contains(&old), "{known:?}");
    others.are_at_rest();
}

#[tokio::test(start_paused = true)]
async fn expire_session_says_whether_there_was_one_to_end() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    assert!(server.expire_session(&client));
    assert!(!server.expire_session(&client), "the client does not know it yet, but the servers do");
    server.refuse(&client);
    States::of(&client).await.are(&[Suspended, Lost]).await;
    assert_eq!(client.session_id(), None);
    assert!(!server.expire_session(&client));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_hears_that_the_nodes_of_an_expired_session_are_gone() {
    let server = TestingServer::start();
    let (leader, waiter) = (connect(&server).await, connect(&server).await);
    let first = latch(&leader).await;
    first.wait_for_leadership().await.unwrap();
    let second = latch(&waiter).await;
    server.until(|| second.our_path().is_some() && server.watches() >= 2).await;
    server.clear_records();
    server.expire_session(&leader);
    second.wait_for_leadership().await.unwrap();
    let heard = super::history::events(&server.records());
    assert!(heard.contains(&WatchEvent::NodeDeleted), "{heard:?}");
    server.until(|| !first.has_leadership()).await;
}

#[tokio::test(start_paused = true)]
async fn the_servers_grant_from_two_to_twenty_ticks() {
    let server = TestingServer::builder().tick_time(Duration::from_millis(500)).start();
    for (wanted, granted) in [(100, 1_000), (1_500, 1_500), (60_000, 10_000)] {
        let wanted = Client::builder_for_testing(&server).session_timeout(Duration::from_millis(wanted));
        let client = wanted.connect().await.unwrap();
        let granted = Duration::from_millis(granted);
        assert_eq!(client.session_timeout(), Some(granted));
        assert_eq!(session(&server, &client).map(|session| session.timeout), Some(granted));
    }
}

/// Ten participants; again and again the leader is stopped until its session is over, and lets go when it wakes.
#[tokio::test(start_paused = true)]
async fn a_minute_of_session_timeouts_takes_no_minute() {
    let (begun, start) = (std::time::Instant::now(), tokio::time::Instant::now());
    let server = TestingServer::start();
    let mut cast = Vec::new();
    for _ in 0..10 {
        let client = connect(&server).await;
        cast.push((latch(&client).await, client));
    }
    let leads = |one: usize| cast[one].0.has_leadership();
    let leader = || (0..cast.len()).find(|one| leads(*one));
    let mut changes = 0;
    while start.elapsed() < Duration::from_secs(60) {
        server.until(|| leader().is_some()).await;
        let old = leader().expect("a leader");
        server.freeze_client(&cast[old].1);
        server.until(|| (0..cast.len()).any(|one| one != old && leads(one))).await;
        server.thaw_client(&cast[old].1);
        assert!(!leads(old));
        changes += 1;
    }
    let (simulated, real) = (start.elapsed(), begun.elapsed());
    println!("{simulated:?} with {changes} changes of leader among {} took {real:?}", cast.len());
    assert!(changes >= 5 && simulated < Duration::from_secs(60) + T * 2, "{changes} changes in {simulated:?}");
    assert!(real < Duration::from_secs(20), "{real:?}");
    assert_eq!(server.panics(), [""; 0]);
}
