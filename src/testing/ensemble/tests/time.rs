//! How long sessions last.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::StreamExt;

use super::{Indifferent, T, access, create, loses, next, open, session, start, takes, three, within};
use crate::engine::{Error, Event, SessionEvent};
use crate::testing::ensemble::{Options, Who};
use crate::util::znode::CreateMode;

#[tokio::test(start_paused = true)]
async fn an_idle_session_lives() {
    for ensemble in [start(Options::default()), three(1, 100)] {
        let mut opened = open(&ensemble, 1).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(opened.events.next().now_or_never(), None);
        assert_eq!(opened.session.exists("/a").await, Ok(None));
    }
}

#[tokio::test(start_paused = true)]
async fn timeouts_are_negotiated() {
    let ensemble = start(Options::default());
    for (wanted, granted) in [(1, 4), (7, 7), (90, 40)] {
        let wanted = access(&ensemble, 0, Duration::from_secs(wanted));
        let session = wanted.open(Arc::new(Indifferent)).await.unwrap().session;
        assert_eq!(session.timeout(), Duration::from_secs(granted));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_expires_at_the_server_after_t_and_is_told_when_it_is_back() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    create(&opened.session, "/mine", CreateMode::Ephemeral).await;
    let (_, _, watch) = opened.session.watch_data("/mine").await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    ensemble.black_hole(Some(1), true);
    let begun = tokio::time::Instant::now();
    let pending = opened.session.get_data("/mine");
    let loss = loses(&mut opened).await;
    within(begun.elapsed(), 0.35, 0.45);
    within(loss.at.since(loss.last_contact), 0.39, 0.41);
    assert_eq!(pending.now_or_never(), Some(Err(Error::ConnectionLoss)));
    assert_eq!(opened.session.exists("/").now_or_never(), Some(Err(Error::NotConnected)));
    let expired = takes(|| ensemble.stat("/mine").is_none()).await;
    assert!(ensemble.sessions().is_empty());
    within(begun.elapsed(), 0.99, 1.01);
    assert!(expired < T);
    tokio::time::sleep(T * 3).await;
    assert_eq!(opened.events.next().now_or_never(), None, "it keeps trying");
    ensemble.black_hole(Some(1), false);
    let back = tokio::time::Instant::now();
    assert_eq!(next(&mut opened).await, SessionEvent::Expired);
    assert!(back.elapsed() < Duration::from_millis(2_100), "{:?}", back.elapsed());
    assert_eq!(watch.now_or_never(), Some(Event::SessionEnded));
    assert_eq!(opened.events.next().await, None);
    assert_eq!(opened.session.exists("/").await, Err(Error::NotConnected));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_late_is_told_at_once() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    ensemble.refuse(Some(1), true);
    ensemble.disconnect(Who::Group(1));
    loses(&mut opened).await;
    tokio::time::sleep(T.mul_f64(1.1)).await;
    assert!(ensemble.sessions().is_empty());
    assert_eq!(opened.events.next().now_or_never(), None, "it cannot know yet");
    ensemble.refuse(Some(1), false);
    let begun = tokio::time::Instant::now();
    assert_eq!(next(&mut opened).await, SessionEvent::Expired);
    assert!(begun.elapsed() < Duration::from_millis(1_100), "attempts are never more than about a second apart");
}

#[tokio::test(start_paused = true)]
async fn what_a_follower_did_not_report_does_not_count() {
    // The follower hears from the client up to the cut; the leader knows only what the last report said.
    let mut earliest = T * 2;
    for seed in 0..20 {
        let ensemble = three(seed, 0);
        let opened = open(&ensemble, 1).await;
        let server = ensemble.sessions()[0].server.unwrap();
        create(&opened.session, "/mine", CreateMode::Ephemeral).await;
        tokio::time::sleep(Duration::from_millis(7_000 + 137 * seed)).await;
        opened.session.exists("/").await.unwrap();
        ensemble.refuse(Some(1), true);
        ensemble.cut_off(server, Duration::from_secs(1));
        let expired = takes(|| ensemble.stat("/mine").is_none()).await;
        // A report is sent every second, about clients heard from since the last one; an idle client pings every 2 s.
        assert!(expired <= T && expired >= T - Duration::from_millis(3_010), "{expired:?}");
        earliest = earliest.min(expired);
    }
    assert!(earliest < T - Duration::from_millis(300), "{earliest:?}: no late report made a session expire early");
}

#[tokio::test(start_paused = true)]
async fn opening_never_gives_up_and_leaves_nothing_when_it_is_dropped() {
    let ensemble = start(Options::default());
    let client = access(&ensemble, 1, T);
    ensemble.refuse(None, true);
    let mut opening = Box::pin(client.open(Arc::new(Indifferent)));
    assert!(tokio::time::timeout(T * 20, &mut opening).await.is_err(), "it keeps trying");
    let causes = client.causes();
    assert!(causes.starts_with("memory-0:2181: connection refused ("), "{causes}");
    ensemble.refuse(None, false);
    let begun = tokio::time::Instant::now();
    let opened = opening.await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(1_100), "{:?}", begun.elapsed());
    assert_eq!(client.causes(), "");
    drop(opened);
    ensemble.delay(None, Duration::from_millis(50));
    let opening = client.open(Arc::new(Indifferent));
    let cancelled = tokio::time::timeout(Duration::from_millis(75), opening).await;
    assert!(cancelled.is_err());
    tokio::time::sleep(T * 2).await;
    assert_eq!(ensemble.sessions(), []);
}

#[tokio::test(start_paused = true)]
async fn a_minute_of_sessions_takes_no_time() {
    let begun = std::time::Instant::now();
    let ensemble = start(Options::default());
    let _sessions = [session(&ensemble, 1).await, session(&ensemble, 2).await];
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_driver_ends_with_the_last_user() {
    let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
    let ensemble = crate::testing::ensemble::MemoryEnsemble::start_with(Options::default(), |driver| {
        tokio::runtime::Handle::current().spawn(async move {
            driver.await;
            ended.send(()).ok();
        });
    });
    let session = session(&ensemble, 1).await;
    drop(ensemble);
    assert_eq!(session.exists("/a").await, Ok(None), "a session keeps the driver running");
    drop(session);
    assert!(tokio::time::timeout(T, has_ended).await.is_ok());
}
