//! The levers.

use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::{T, create, loses, next, open, session, start, takes};
use crate::engine::{Error, Event, SessionEvent};
use crate::protocol::ErrorCode;
use crate::testing::ensemble::{Loss, Operation, Options, Who};
use crate::util::znode::CreateMode;

#[tokio::test(start_paused = true)]
async fn a_cut_fails_what_is_under_way_and_the_session_returns_with_its_watches() {
    let (mut applied, mut lost) = (0, 0);
    for seed in 0..30 {
        let ensemble = start(Options { seed, ..Options::default() });
        let (mut opened, other) = (open(&ensemble, 1).await, session(&ensemble, 2).await);
        let session = opened.session.clone();
        for path in ["/data", "/gone", "/parent"] {
            create(&session, path, CreateMode::Persistent).await;
        }
        let (_, _, data) = session.watch_data("/data").await.unwrap();
        let (_, _, gone) = session.watch_data("/gone").await.unwrap();
        let (_, _, parent) = session.watch_children("/parent").await.unwrap();
        let (_, born) = session.watch_exists("/born").await.unwrap();
        let (_, quiet) = session.watch_exists("/quiet").await.unwrap();
        ensemble.delay(Some(1), Duration::from_millis(20));
        let pending = create(&session, "/maybe", CreateMode::Persistent);
        let pending = std::panic::AssertUnwindSafe(pending).catch_unwind();
        tokio::pin!(pending);
        assert!(pending.as_mut().now_or_never().is_none());
        ensemble.refuse(Some(1), true);
        assert_eq!(ensemble.disconnect(Who::Session(session.id())), 1);
        loses(&mut opened).await;
        assert!(pending.await.is_err(), "it failed");
        assert_eq!(session.exists("/").await, Err(Error::NotConnected));
        assert_eq!(ensemble.watches(Some(session.id())), 0);
        other.set_data("/data", b"", None).await.unwrap();
        other.delete("/gone", None).await.unwrap();
        create(&other, "/parent/child", CreateMode::Persistent).await;
        create(&other, "/born", CreateMode::Persistent).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        match ensemble.stat("/maybe") {
            Some(_) => applied += 1,
            None => lost += 1,
        }
        ensemble.refuse(Some(1), false);
        assert_eq!(next(&mut opened).await, SessionEvent::Connected);
        session.exists("/").await.unwrap();
        assert_eq!(data.now_or_never(), Some(Event::NodeDataChanged), "before any later reply");
        assert_eq!(gone.now_or_never(), Some(Event::NodeDeleted));
        assert_eq!(parent.now_or_never(), Some(Event::NodeChildrenChanged));
        assert_eq!(born.now_or_never(), Some(Event::NodeCreated));
        assert_eq!(ensemble.watches(Some(session.id())), 1);
        create(&other, "/quiet", CreateMode::Persistent).await;
        assert_eq!(quiet.await, Event::NodeCreated);
    }
    assert!(applied > 5 && lost > 5, "{applied} applied, {lost} lost");
}

#[tokio::test(start_paused = true)]
async fn a_watch_dropped_at_any_moment_of_a_reconnect_is_left_at_no_server() {
    for millis in 0..150 {
        let ensemble = start(Options::default());
        let mut opened = open(&ensemble, 1).await;
        create(&opened.session, "/data", CreateMode::Persistent).await;
        let (_, _, dropped) = opened.session.watch_data("/data").await.unwrap();
        let (_, _, kept) = opened.session.watch_children("/data").await.unwrap();
        ensemble.delay(Some(1), Duration::from_millis(20));
        ensemble.disconnect(Who::All);
        loses(&mut opened).await;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        drop(dropped);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(ensemble.watches(None), 1, "dropped after {millis} ms");
        create(&opened.session, "/data/child", CreateMode::Persistent).await;
        assert_eq!(kept.await, Event::NodeChildrenChanged);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_applied_or_not_as_asked() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    let session = opened.session.clone();
    for (loss, path) in [(Loss::Applied, "/done"), (Loss::NotApplied, "/undone")] {
        let applied = loss == Loss::Applied;
        ensemble.lose_next_reply(Who::Group(1), Some(Operation::Create), loss);
        assert_eq!(session.exists("/").await.map(|found| found.is_some()), Ok(true), "not of that kind");
        let created = session.create(path, b"", CreateMode::Ephemeral, &[crate::util::znode::Acl::anyone_all()]);
        let behind = session.exists("/");
        assert_eq!(created.await.map(drop), Err(Error::ConnectionLoss));
        assert_eq!(behind.await, Err(Error::ConnectionLoss));
        assert_eq!(ensemble.stat(path).is_some(), applied);
        loses(&mut opened).await;
        assert_eq!(next(&mut opened).await, SessionEvent::Connected);
        assert_eq!(session.exists(path).await.unwrap().is_some(), applied);
    }
    assert_eq!(ensemble.lost_replies(), 2);
    ensemble.lose_next_reply(Who::Session(session.id() + 1), None, Loss::Applied);
    assert!(session.exists("/").await.is_ok(), "the lever is for another session");
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_close_is_lost_as_asked_and_sent_again() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let ensemble = start(Options::default());
        let opened = open(&ensemble, 1).await;
        ensemble.lose_next_reply(Who::Group(1), Some(Operation::Close), loss);
        let mut closed = opened.session.close();
        takes(|| ensemble.lost_replies() == 1).await;
        assert_eq!(ensemble.sessions().is_empty(), loss == Loss::Applied);
        assert!((&mut closed).now_or_never().is_none(), "it does not know yet");
        closed.await;
        assert_eq!(ensemble.sessions(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_learns_it_when_it_comes_back() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    create(&opened.session, "/mine", CreateMode::Ephemeral).await;
    ensemble.expire_session(opened.session.id());
    loses(&mut opened).await;
    assert_eq!(next(&mut opened).await, SessionEvent::Expired);
    assert_eq!(ensemble.stat("/mine"), None);
    assert_eq!(ensemble.sessions(), []);
}

#[tokio::test(start_paused = true)]
async fn no_loss_is_left_out_however_quick_the_return() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    for _ in 0..3 {
        ensemble.disconnect(Who::All);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for _ in 0..3 {
        loses(&mut opened).await;
        assert_eq!(next(&mut opened).await, SessionEvent::Connected);
    }
    assert_eq!(opened.events.next().now_or_never(), None);
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_or_loses_the_data() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    create(&opened.session, "/mine", CreateMode::Ephemeral).await;
    ensemble.stop();
    loses(&mut opened).await;
    tokio::time::sleep(T).await;
    assert_eq!(ensemble.owner("/mine"), Some(opened.session.id()), "time stands still for sessions");
    ensemble.start(true);
    assert_eq!(next(&mut opened).await, SessionEvent::Connected);
    assert!(opened.session.exists("/mine").await.unwrap().is_some());
    ensemble.stop();
    ensemble.start(false);
    assert_eq!(ensemble.paths(), [""; 0]);
    loses(&mut opened).await;
    tokio::time::sleep(T * 2).await;
    assert_eq!(opened.events.next().now_or_never(), None, "a server that knows less keeps turning it away");
    let closed = opened.session.close();
    assert_eq!(next(&mut opened).await, SessionEvent::Closed);
    closed.await;
    let again = session(&ensemble, 1).await;
    assert_ne!(again.id(), opened.session.id());
    assert_eq!(create(&again, "/n-", CreateMode::PersistentSequential).await, "/n-0000000000");
}

#[tokio::test(start_paused = true)]
async fn a_short_black_hole_only_delays() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    ensemble.black_hole(Some(1), true);
    let session = opened.session.clone();
    let created = create(&session, "/late", CreateMode::Persistent);
    let created = tokio::time::timeout(T.mul_f64(0.2), created).await;
    assert!(created.is_err());
    assert_eq!(ensemble.stat("/late"), None);
    ensemble.black_hole(Some(1), false);
    assert!(takes(|| ensemble.stat("/late").is_some()).await < Duration::from_millis(20));
    assert_eq!(opened.events.next().now_or_never(), None);
}

#[tokio::test(start_paused = true)]
async fn what_a_black_hole_held_comes_before_what_arrives_as_it_ends() {
    for heal_all in [false, true] {
        let ensemble = start(Options { latency: 0..=0, ..Options::default() });
        let session = session(&ensemble, 1).await;
        create(&session, "/n", CreateMode::Persistent).await;
        ensemble.black_hole(Some(1), true);
        let held = session.set_data("/n", b"held", None);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let just_sent = session.get_data("/n");
        if heal_all {
            ensemble.heal();
        } else {
            ensemble.black_hole(Some(1), false);
        }
        assert_eq!(held.await.map(|stat| stat.version), Ok(1));
        assert_eq!(just_sent.await.map(|(data, _)| data), Ok(b"held".to_vec()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_felt_by_its_group_alone() {
    let ensemble = start(Options::default());
    let (slow, fast) = (session(&ensemble, 1).await, session(&ensemble, 2).await);
    ensemble.delay(Some(1), Duration::from_millis(100));
    let begun = tokio::time::Instant::now();
    fast.exists("/").await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(10));
    slow.exists("/").await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn hands_change_the_tree_and_watches_hear_of_it() {
    let ensemble = start(Options::default());
    let session = session(&ensemble, 1).await;
    let (_, watch) = session.watch_exists("/by-hand").await.unwrap();
    ensemble.create_by_hand("/by-hand", b"1", CreateMode::Persistent).unwrap();
    assert_eq!(ensemble.get("/by-hand").as_deref(), Some(&b"1"[..]));
    assert_eq!(watch.await, Event::NodeCreated);
    let (_, _, watch) = session.watch_data("/by-hand").await.unwrap();
    ensemble.set_data_by_hand("/by-hand", b"2").unwrap();
    assert_eq!(watch.await, Event::NodeDataChanged);
    ensemble.deny("/by-hand");
    assert_eq!(session.get_data("/by-hand").await, Err(Error::NoAuth));
    ensemble.create_by_hand("/by-hand/child", b"", CreateMode::Persistent).unwrap();
    assert_eq!(session.delete("/by-hand/child", None).await, Err(Error::NoAuth));
    ensemble.allow("/by-hand");
    assert_eq!(session.delete("/by-hand/child", None).await, Ok(()));
    let (_, _, watch) = session.watch_children("/by-hand").await.unwrap();
    ensemble.delete_by_hand("/by-hand").unwrap();
    assert_eq!(watch.await, Event::NodeDeleted);
    assert_eq!(ensemble.delete_by_hand("/by-hand"), Err(ErrorCode::NoNode));
}

#[tokio::test(start_paused = true)]
async fn watches_are_counted_and_removed_when_dropped() {
    let ensemble = start(Options::default());
    let session = session(&ensemble, 1).await;
    let (_, first) = session.watch_exists("/a").await.unwrap();
    let (_, second) = session.watch_exists("/a").await.unwrap();
    assert!(session.watch_data("/a").await.is_err());
    assert_eq!(ensemble.watches(None), 1, "one for the path");
    drop(first);
    session.exists("/").await.unwrap();
    assert_eq!((ensemble.watches(None), ensemble.count(Some(1), Operation::RemoveWatch)), (1, 0));
    drop(second);
    session.exists("/").await.unwrap();
    assert_eq!((ensemble.watches(None), ensemble.count(Some(1), Operation::RemoveWatch)), (0, 1));
    drop(session.watch_exists("/b"));
    drop(session.exists("/"));
    session.exists("/").await.unwrap();
    session.exists("/").await.unwrap();
    assert_eq!(ensemble.watches(None), 0, "the reply was dropped");
    let (_, watch) = session.watch_exists("/c").await.unwrap();
    let refused = session.watch_data("/c");
    drop(watch);
    assert!(refused.await.is_err());
    session.sync("/").await.unwrap();
    assert_eq!(ensemble.watches(None), 0, "the refused request armed none");
    assert_eq!(ensemble.count(None, Operation::Exists), 9);
}
