//! How a client looks for a server, and how a session is closed while there is none.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::{T, Told, access, create, loses, next, open, open_observed, start, takes, three, within};
use crate::backend::{Event, SessionEvent};
use crate::testing::ensemble::{Options, Who};
use crate::znode::CreateMode;

#[tokio::test(start_paused = true)]
async fn servers_are_tried_one_after_another_with_pauses_that_grow() {
    for servers in [1, 3] {
        let ensemble = start(Options { servers, latency: 0..=0, ..Options::default() });
        let (mut opened, seen) = open_observed(&ensemble, 1).await;
        create(&opened.session, "/n", CreateMode::Persistent).await;
        // The servers know less than the client: each accepts its connection and closes it.
        ensemble.stop();
        ensemble.start(false);
        loses(&mut opened).await;
        seen.take();
        tokio::time::sleep(T * 2).await;
        let attempts: Vec<_> = seen.take().into_iter().map(|(at, told)| (at.expect("an instant"), told)).collect();
        assert!(attempts.iter().all(|(_, told)| *told == Told::Connecting), "{attempts:?}");
        let gaps: Vec<Duration> = attempts.windows(2).map(|two| two[1].0.since(two[0].0)).collect();
        assert!(gaps.iter().all(|gap| *gap >= Duration::from_millis(50)), "{gaps:?}");
        assert!(gaps.iter().all(|gap| *gap <= Duration::from_millis(1_051)), "{gaps:?}");
        let long = gaps.iter().filter(|gap| **gap > Duration::from_millis(300)).count();
        assert!(long >= 10, "{gaps:?}");
        assert!(gaps.len() <= 60 * servers, "{}: {gaps:?}", gaps.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_left_after_a_while() {
    let ensemble = start(Options::default());
    ensemble.black_hole(None, true);
    let client = access(&ensemble, 1, T);
    let opening = client.open(std::sync::Arc::new(super::Seen::default()));
    tokio::pin!(opening);
    assert!((&mut opening).now_or_never().is_none());
    let waited = takes(|| !client.causes().is_empty()).await;
    within(waited, 0.32, 0.34);
    assert_eq!(client.causes(), "server 0: no answer (1 try)");
    ensemble.heal();
    let begun = Instant::now();
    assert!(opening.await.is_ok());
    assert!(begun.elapsed() < Duration::from_millis(2_100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_session_closed_without_a_connection_is_closed_at_the_servers_when_they_are_back() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    create(&opened.session, "/mine", CreateMode::Ephemeral).await;
    ensemble.refuse(None, true);
    ensemble.disconnect(Who::All);
    loses(&mut opened).await;
    let mut closed = opened.session.close();
    tokio::time::sleep(T / 2).await;
    assert!((&mut closed).now_or_never().is_none(), "the servers know it");
    assert!(ensemble.stat("/mine").is_some());
    ensemble.refuse(None, false);
    let begun = Instant::now();
    closed.await;
    assert!(begun.elapsed() < Duration::from_millis(1_100), "{:?}", begun.elapsed());
    assert_eq!((ensemble.stat("/mine"), ensemble.sessions()), (None, vec![]));
    let ended = opened.events.next().await;
    assert!(matches!(ended, Some(SessionEvent::Connected | SessionEvent::Closed)), "{ended:?}");
}

/// An attempt to reconnect that was given up reaches its server late, and moves the session there.
#[tokio::test(start_paused = true)]
async fn a_session_that_was_moved_is_closed_by_the_connection_that_it_was_moved_from() {
    let mut moved = 0;
    for seed in 0..16 {
        let ensemble = three(seed, 0);
        let (mut opened, seen) = open_observed(&ensemble, 1).await;
        create(&opened.session, "/mine", CreateMode::Ephemeral).await;
        ensemble.delay(Some(1), T / 2);
        ensemble.disconnect(Who::All);
        loses(&mut opened).await;
        tokio::time::sleep(T / 6).await;
        ensemble.heal();
        assert_eq!(next(&mut opened).await, SessionEvent::Connected);
        // What the late one is granted shows that it has come.
        ensemble.grant(None, &(T * 2..=T * 2));
        tokio::time::sleep(T / 2).await;
        assert!(opened.events.next().now_or_never().is_none(), "still connected");
        moved += u32::from(ensemble.sessions()[0].timeout == T * 2);
        seen.take();
        opened.session.close().await;
        assert!(!seen.told().contains(&Told::Connecting), "it takes no other connection, with seed {seed}");
        assert_eq!((ensemble.stat("/mine"), ensemble.sessions()), (None, vec![]), "with seed {seed}");
    }
    assert!(moved > 0, "in no run did the late attempt arrive");
}

#[tokio::test(start_paused = true)]
async fn a_session_closed_without_a_connection_ends_when_the_servers_must_have_forgotten_it() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    let (_, watch) = opened.session.watch_exists("/n").await.unwrap();
    let begun = Instant::now();
    ensemble.refuse(None, true);
    ensemble.disconnect(Who::All);
    loses(&mut opened).await;
    tokio::time::sleep(T / 4).await;
    opened.session.close().await;
    within(begun.elapsed(), 0.99, 1.01);
    assert_eq!(next(&mut opened).await, SessionEvent::Closed);
    assert_eq!(opened.events.next().await, None);
    assert_eq!(watch.await, Event::SessionEnded);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_dropped_without_a_connection_is_closed_too() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    create(&opened.session, "/mine", CreateMode::Ephemeral).await;
    ensemble.black_hole(None, true);
    loses(&mut opened).await;
    drop(opened);
    ensemble.heal();
    let gone = takes(|| ensemble.stat("/mine").is_none()).await;
    assert!(gone < T / 2, "{gone:?}: not by its expiry");
}
