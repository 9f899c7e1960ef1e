//! Persistent watches and reconnects.

use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::{create, loses, next, open, session, start, takes, three};
use crate::engine::{Event, PersistentEvent, SessionEvent, WatchMode};
use crate::testing::ensemble::{Operation, Options, Who};
use crate::util::znode::CreateMode;

fn node(path: &str, event: Event) -> Option<PersistentEvent> {
    Some(PersistentEvent::Node { path: path.to_owned(), event })
}

#[tokio::test(start_paused = true)]
async fn after_a_reconnect_it_goes_on_without_what_was_missed_and_says_so() {
    for mode in [WatchMode::Persistent, WatchMode::PersistentRecursive] {
        let ensemble = three(1, 50);
        let (mut opened, other) = (open(&ensemble, 1).await, session(&ensemble, 2).await);
        create(&other, "/n", CreateMode::Persistent).await;
        let mut watch = opened.session.watch_persistent("/n", mode).await.unwrap();
        opened.session.sync("/").await.unwrap();
        while watch.next().now_or_never().is_some() {}
        ensemble.refuse(Some(1), true);
        ensemble.disconnect(Who::Group(1));
        loses(&mut opened).await;
        other.set_data("/n", b"missed", None).await.unwrap();
        ensemble.refuse(Some(1), false);
        assert_eq!(next(&mut opened).await, SessionEvent::Connected);
        assert_eq!(watch.next().await, Some(PersistentEvent::Resync));
        opened.session.sync("/").await.unwrap();
        assert_eq!(watch.next().now_or_never(), None, "nothing is replayed");
        other.set_data("/n", b"seen", None).await.unwrap();
        assert_eq!(watch.next().await, node("/n", Event::NodeDataChanged));
        assert_eq!(ensemble.watches(None), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_at_any_moment_of_a_reconnect_it_is_left_at_no_server() {
    for millis in (0..150).step_by(3) {
        let ensemble = start(Options::default());
        let mut opened = open(&ensemble, 1).await;
        let dropped = opened.session.watch_persistent("/n", WatchMode::Persistent).await.unwrap();
        let mut kept = opened.session.watch_persistent("/n", WatchMode::PersistentRecursive).await.unwrap();
        assert_eq!(ensemble.watches(None), 2);
        ensemble.delay(Some(1), Duration::from_millis(20));
        ensemble.disconnect(Who::All);
        loses(&mut opened).await;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        drop(dropped);
        assert_eq!(next(&mut opened).await, SessionEvent::Connected);
        takes(|| ensemble.watches(None) == 1).await;
        opened.session.exists("/").await.unwrap();
        assert_eq!(ensemble.watches(None), 1, "dropped after {millis} ms");
        create(&opened.session, "/n", CreateMode::Persistent).await;
        assert_eq!(kept.next().await, Some(PersistentEvent::Resync));
        assert_eq!(kept.next().await, node("/n", Event::NodeCreated));
        assert_eq!(ensemble.count(Some(1), Operation::AddWatch), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn the_root_and_a_denied_node_can_be_watched() {
    let ensemble = start(Options::default());
    let session = session(&ensemble, 1).await;
    ensemble.create_by_hand("/secret", b"", CreateMode::Persistent).unwrap();
    ensemble.deny("/secret");
    let mut all = session.watch_persistent("/", WatchMode::PersistentRecursive).await.unwrap();
    let mut secret = session.watch_persistent("/secret", WatchMode::Persistent).await.unwrap();
    ensemble.set_data_by_hand("/secret", b"1").unwrap();
    create(&session, "/n", CreateMode::Persistent).await;
    assert_eq!(all.next().now_or_never(), Some(node("/n", Event::NodeCreated)));
    assert_eq!(secret.next().now_or_never(), None, "no event without permission to read");
    ensemble.allow("/secret");
    ensemble.set_data_by_hand("/secret", b"2").unwrap();
    assert_eq!(secret.next().await, node("/secret", Event::NodeDataChanged));
}
