//! What an observer is told, and when.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Seen, T, Told, create, loses, next, open_observed, start};
use crate::backend::{Error, Opened, Proof, SessionEvent};
use crate::testing::ensemble::{MemoryEnsemble, Options, Who};
use crate::util::clock::Clock;
use crate::znode::{Acl, CreateMode};

#[tokio::test(start_paused = true)]
async fn answers_are_told_with_what_they_prove() {
    let ensemble = start(Options::default());
    let (opened, seen) = open_observed(&ensemble, 1).await;
    let session = opened.session;
    assert_eq!(seen.told(), [Told::Connecting, Told::Connected(T)]);
    let anyone = [Acl::anyone_all()];
    create(&session, "/n", CreateMode::Persistent).await;
    assert_eq!(seen.told(), [Told::Answered(Proof::Quorum)]);
    let twice = session.create("/n", b"", CreateMode::Persistent, &anyone).await;
    assert_eq!((twice.map(drop), seen.told()), (Err(Error::NodeExists), vec![Told::Answered(Proof::Quorum)]));
    session.multi(vec![crate::backend::Op::Check { path: "/no".to_owned(), version: None }]).await.unwrap();
    assert_eq!(seen.told(), [Told::Answered(Proof::Quorum)], "a refused transaction is one too");
    session.sync("/").await.unwrap();
    assert_eq!(seen.told(), [Told::Answered(Proof::Leader)]);
    assert_eq!(session.get_data("/no").await, Err(Error::NoNode));
    assert_eq!(seen.told(), [Told::Answered(Proof::Contact)]);
    let no_acl = session.create("/m", b"", CreateMode::Persistent, &[]).await;
    assert_eq!((no_acl.map(drop), seen.told()), (Err(Error::InvalidAcl), vec![]), "never sent");
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_with_the_instant_of_its_request() {
    let ensemble = start(Options { latency: 100..=100, ..Options::default() });
    let clock = Clock::Tokio(Instant::now());
    let seen = Arc::new(Seen::default());
    let opening = clock.now();
    let session = ensemble.for_group(1, T, usize::MAX, clock).open(seen.clone()).await.expect("a session").session;
    assert_eq!(seen.take()[0], (Some(opening), Told::Connecting));
    let mut requests = Vec::new();
    let mut sent = Vec::new();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(30)).await;
        sent.push((Some(clock.now()), Told::Answered(Proof::Leader)));
        requests.push(session.sync("/"));
    }
    futures::future::join_all(requests).await;
    assert_eq!(seen.take(), sent);
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_pings_and_the_answers_count() {
    let ensemble = start(Options::default());
    let (_opened, seen) = open_observed(&ensemble, 1).await;
    seen.take();
    tokio::time::sleep(T * 2).await;
    let told = seen.take();
    assert!(told.iter().all(|(_, told)| *told == Told::Answered(Proof::Contact)), "{told:?}");
    let gaps = told.windows(2).map(|two| two[1].0.unwrap().since(two[0].0.unwrap()));
    assert!(gaps.clone().all(|gap| gap <= T / 3), "{told:?}");
    assert!(gaps.count() >= 5, "{told:?}");
}

/// The loss of a connection, and the return, as the observer sees them at the moment of each event.
async fn loss_and_return(opened: &mut Opened, seen: &Seen) {
    let loss = loses(opened).await;
    let told = seen.told();
    assert_eq!(told[0], Told::Disconnected(loss));
    // Attempts follow at once.
    assert!(told[1..].iter().all(|told| *told == Told::Connecting), "{told:?}");
    assert_eq!(next(opened).await, SessionEvent::Connected);
    let told = seen.told();
    assert!(told.contains(&Told::Connected(T)) && !told.contains(&Told::Disconnected(loss)), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn the_observer_is_told_of_a_loss_before_the_callers_that_wait() {
    let ensemble = start(Options::default());
    let (mut opened, seen) = open_observed(&ensemble, 1).await;
    let (session, watched) = (opened.session.clone(), opened.session.clone());
    let _watch = watched.watch_exists("/n").await.unwrap();
    seen.take();
    ensemble.delay(Some(1), Duration::from_millis(20));
    let pending = session.sync("/");
    ensemble.disconnect(Who::All);
    assert_eq!(pending.await, Err(Error::ConnectionLoss));
    let told = seen.0.lock().unwrap().clone();
    assert!(matches!(told[..], [(None, Told::Disconnected(_)), ..]), "{told:?}");
    loss_and_return(&mut opened, &seen).await;
    session.exists("/").await.unwrap();
    assert_eq!(seen.told(), [Told::Answered(Proof::Contact); 2], "the restored watch, and the read");
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_connects_to_nothing() {
    let ensemble: MemoryEnsemble = start(Options::default());
    let (mut opened, seen) = open_observed(&ensemble, 1).await;
    seen.take();
    ensemble.refuse(Some(1), true);
    ensemble.disconnect(Who::All);
    let loss = loses(&mut opened).await;
    tokio::time::sleep(T / 2).await;
    assert_eq!(seen.told(), [Told::Disconnected(loss)], "no request was written, and there was nothing more to lose");
    ensemble.refuse(Some(1), false);
    assert_eq!(next(&mut opened).await, SessionEvent::Connected);
    assert_eq!(seen.told(), [Told::Connecting, Told::Connected(T)]);
    drop(opened);
    tokio::time::sleep(T).await;
    assert_eq!(seen.told(), [], "the end of a session is no loss");
}
