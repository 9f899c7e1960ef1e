//! A stopped process: its half of every session stands still, the servers go on.

use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::{T, create, loses, next, open, session, start, takes, within};
use crate::backend::{Error, Event, SessionEvent};
use crate::testing::ensemble::Options;
use crate::znode::CreateMode;

#[tokio::test(start_paused = true)]
async fn a_frozen_client_expires_and_learns_it_after_the_thaw() {
    for seed in 0..10 {
        let ensemble = start(Options { seed, ..Options::default() });
        let (mut frozen, other) = (open(&ensemble, 1).await, session(&ensemble, 2).await);
        create(&frozen.session, "/mine", CreateMode::Ephemeral).await;
        let (_, _, watch) = frozen.session.watch_data("/mine").await.unwrap();
        ensemble.freeze(1);
        within(takes(|| ensemble.stat("/mine").is_none()).await, 0.99, 1.01);
        assert_eq!(other.exists("/mine").await, Ok(None));
        tokio::time::sleep(T * 3).await;
        assert_eq!(frozen.events.next().now_or_never(), None, "it hears nothing");
        assert!(watch.now_or_never().is_none());
        ensemble.thaw(1);
        let begun = tokio::time::Instant::now();
        match next(&mut frozen).await {
            SessionEvent::Disconnected(_) => assert_eq!(next(&mut frozen).await, SessionEvent::Expired),
            event => assert_eq!(event, SessionEvent::Expired),
        }
        assert!(begun.elapsed() < Duration::from_millis(200));
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_freeze_delays_what_comes_and_loses_nothing() {
    let ensemble = start(Options::default());
    let (mut frozen, other) = (open(&ensemble, 1).await, session(&ensemble, 2).await);
    let session = frozen.session.clone();
    create(&session, "/n", CreateMode::Persistent).await;
    let (_, _, watch) = session.watch_data("/n").await.unwrap();
    let sent = session.set_data("/other", b"", None);
    ensemble.freeze(1);
    other.set_data("/n", b"", None).await.unwrap();
    tokio::time::sleep(T.mul_f64(0.3)).await;
    assert!(sent.now_or_never().is_none());
    ensemble.thaw(1);
    assert_eq!(watch.await, Event::NodeDataChanged);
    assert_eq!(session.get_data("/n").await.unwrap().1.version, 1);
    assert_eq!(frozen.events.next().now_or_never(), None);
}

#[tokio::test(start_paused = true)]
async fn what_waited_in_a_freeze_comes_before_what_arrives_at_the_thaw() {
    for millis in 0..6 {
        let ensemble = start(Options { latency: 1..=1, ..Options::default() });
        let session = session(&ensemble, 1).await;
        create(&session, "/n", CreateMode::Persistent).await;
        ensemble.freeze(1);
        let waits = session.set_data("/n", b"waited", None);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let arrives = session.get_data("/n");
        tokio::time::sleep(Duration::from_millis(millis)).await;
        ensemble.thaw(1);
        assert_eq!(waits.await.map(|stat| stat.version), Ok(1));
        assert_eq!(arrives.await.map(|(data, _)| data), Ok(b"waited".to_vec()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_black_hole_held_before_a_freeze_comes_before_what_waited_in_it() {
    let pass = async |millis| tokio::time::sleep(Duration::from_millis(millis)).await;
    let ensemble = start(Options { latency: 5..=5, ..Options::default() });
    let session = session(&ensemble, 1).await;
    create(&session, "/n", CreateMode::Persistent).await;
    let first = session.get_data("/n");
    pass(3).await;
    let second = session.exists("/n");
    pass(6).await;
    ensemble.black_hole(Some(1), true);
    // The first answer comes to the black hole, the second one to the frozen client.
    pass(2).await;
    ensemble.freeze(1);
    pass(4).await;
    ensemble.black_hole(Some(1), false);
    pass(2).await;
    ensemble.thaw(1);
    assert_eq!(first.await.map(|(data, _)| data), Ok(Vec::new()));
    assert!(second.await.is_ok_and(|found| found.is_some()));
}

#[tokio::test(start_paused = true)]
async fn after_a_longer_freeze_the_session_is_kept() {
    for seed in 0..10 {
        let ensemble = start(Options { seed, ..Options::default() });
        let mut frozen = open(&ensemble, 1).await;
        create(&frozen.session, "/mine", CreateMode::Ephemeral).await;
        let reply = frozen.session.exists("/mine");
        ensemble.freeze(1);
        tokio::time::sleep(T.mul_f64(0.8)).await;
        ensemble.thaw(1);
        match reply.await {
            Ok(found) => assert!(found.is_some(), "it was in the buffer"),
            Err(error) => {
                assert_eq!(error, Error::ConnectionLoss, "the clock was looked at first");
                loses(&mut frozen).await;
                assert_eq!(next(&mut frozen).await, SessionEvent::Connected);
            }
        }
        assert!(frozen.session.exists("/mine").await.unwrap().is_some());
    }
}
