//! Which event resolves which watch, and when.

use super::multi::{op_create, op_delete, op_set};
use futures::{FutureExt, StreamExt};

use super::scene::{Scene, already, create, soon};
use crate::engine::{Error, Event, PersistentEvent, PersistentWatch, WatchMode};
use crate::util::znode::{Acl, CreateMode, Permissions};

pub(super) async fn a_data_watch_hears_of_data_and_of_the_end(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    let path = scene.path("node");
    create(&session, &path).await;
    let (_, _, mut watch) = session.watch_data(&path).await.unwrap();
    create(&other, &scene.path("node/child")).await;
    session.sync("/").await.unwrap();
    assert_eq!(already(&mut watch), None, "a data watch does not report children");
    other.set_data(&path, b"new", None).await.unwrap();
    assert_eq!(soon(&mut watch).await, Event::NodeDataChanged);
    let (data, _, mut watch) = session.watch_data(&path).await.unwrap();
    assert_eq!(data, b"new");
    other.delete(&scene.path("node/child"), None).await.unwrap();
    other.delete(&path, None).await.unwrap();
    assert_eq!(soon(&mut watch).await, Event::NodeDeleted);
}

pub(super) async fn an_exists_watch_hears_of_the_beginning(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    let path = scene.path("node");
    let (found, mut watch) = session.watch_exists(&path).await.unwrap();
    assert_eq!(found, None);
    create(&other, &path).await;
    assert_eq!(soon(&mut watch).await, Event::NodeCreated);
    let (found, mut watch) = session.watch_exists(&path).await.unwrap();
    assert!(found.is_some());
    other.set_data(&path, b"new", None).await.unwrap();
    assert_eq!(soon(&mut watch).await, Event::NodeDataChanged);
    let (_, mut watch) = session.watch_exists(&path).await.unwrap();
    other.delete(&path, None).await.unwrap();
    assert_eq!(soon(&mut watch).await, Event::NodeDeleted);
}

pub(super) async fn a_child_watch_hears_of_children_and_of_the_end(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    let (path, child) = (scene.path("node"), scene.path("node/child"));
    create(&session, &path).await;
    let (names, _, mut watch) = session.watch_children(&path).await.unwrap();
    assert!(names.is_empty());
    other.set_data(&path, b"new", None).await.unwrap();
    session.sync("/").await.unwrap();
    assert_eq!(already(&mut watch), None, "a child watch does not report data");
    create(&other, &child).await;
    assert_eq!(soon(&mut watch).await, Event::NodeChildrenChanged);
    let (_, _, mut watch) = session.watch_children(&path).await.unwrap();
    other.set_data(&child, b"new", None).await.unwrap();
    create(&other, &scene.path("node/child/grandchild")).await;
    session.sync("/").await.unwrap();
    assert_eq!(already(&mut watch), None, "nor changes to its children");
    other.delete(&scene.path("node/child/grandchild"), None).await.unwrap();
    other.delete(&child, None).await.unwrap();
    assert_eq!(soon(&mut watch).await, Event::NodeChildrenChanged);
    let (_, _, mut watch) = session.watch_children(&path).await.unwrap();
    other.delete(&path, None).await.unwrap();
    assert_eq!(soon(&mut watch).await, Event::NodeDeleted);
}

pub(super) async fn a_watch_fires_once_and_for_each_of_its_holders(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    let path = scene.path("node");
    create(&session, &path).await;
    let (_, _, mut data) = session.watch_data(&path).await.unwrap();
    let (_, _, mut again) = session.watch_data(&path).await.unwrap();
    let (_, mut exists) = session.watch_exists(&path).await.unwrap();
    let (_, _, mut children) = session.watch_children(&path).await.unwrap();
    other.set_data(&path, b"1", None).await.unwrap();
    for watch in [&mut data, &mut again, &mut exists] {
        assert_eq!(soon(watch).await, Event::NodeDataChanged);
    }
    assert_eq!(already(&mut children), None);
    other.set_data(&path, b"2", None).await.unwrap();
    session.sync("/").await.unwrap();
    for watch in [&mut data, &mut again, &mut exists, &mut children] {
        assert_eq!(already(watch), None, "it has fired, or does not report data");
    }
    let (_, _, mut data) = session.watch_data(&path).await.unwrap();
    other.delete(&path, None).await.unwrap();
    for watch in [&mut data, &mut children] {
        assert_eq!(soon(watch).await, Event::NodeDeleted);
    }
}

pub(super) async fn an_event_comes_before_any_reply_that_shows_its_cause(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    let path = scene.path("node");
    for round in 0..20 {
        create(&other, &path).await;
        session.sync("/").await.unwrap();
        let (_, stat, mut watch) = session.watch_data(&path).await.unwrap();
        let changed = other.set_data(&path, b"new", None);
        let mut reads = 0;
        loop {
            let (_, seen) = session.get_data(&path).await.unwrap();
            reads += 1;
            if seen.version > stat.version {
                break;
            }
            assert!(reads < 10_000, "the change is never seen");
        }
        assert_eq!(already(&mut watch), Some(Event::NodeDataChanged), "round {round}");
        changed.await.unwrap();
        other.delete(&path, None).await.unwrap();
    }
}

pub(super) async fn the_event_of_an_own_write_comes_before_its_reply(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("node");
    let (_, mut created) = session.watch_exists(&path).await.unwrap();
    let (_, _, mut parent) = session.watch_children(&scene.path("")).await.unwrap();
    create(&session, &path).await;
    assert_eq!(already(&mut created), Some(Event::NodeCreated));
    assert_eq!(already(&mut parent), Some(Event::NodeChildrenChanged));
    let (_, _, mut data) = session.watch_data(&path).await.unwrap();
    session.set_data(&path, b"", None).await.unwrap();
    assert_eq!(already(&mut data), Some(Event::NodeDataChanged));
    let (_, _, mut data) = session.watch_data(&path).await.unwrap();
    let (_, _, mut children) = session.watch_children(&path).await.unwrap();
    session.delete(&path, None).await.unwrap();
    assert_eq!(already(&mut data), Some(Event::NodeDeleted));
    assert_eq!(already(&mut children), Some(Event::NodeDeleted));
}

pub(super) async fn a_transaction_fires_once_for_each_path(scene: &Scene) {
    let session = scene.session().await;
    let (a, b) = (scene.path("a"), scene.path("b"));
    create(&session, &b).await;
    let (_, mut beginning) = session.watch_exists(&a).await.unwrap();
    let (_, _, mut parent) = session.watch_children(&scene.path("")).await.unwrap();
    let (_, _, mut data) = session.watch_data(&b).await.unwrap();
    let steps = vec![op_create(&a, CreateMode::Persistent), op_set(&b, None), op_delete(&b, None), op_delete(&a, None)];
    session.multi(steps).await.unwrap();
    assert_eq!(already(&mut beginning), Some(Event::NodeCreated), "even though the node is gone by now");
    assert_eq!(already(&mut parent), Some(Event::NodeChildrenChanged));
    assert_eq!(already(&mut data), Some(Event::NodeDataChanged));
}

pub(super) async fn a_refused_read_leaves_no_watch(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("node");
    assert_eq!(session.watch_data(&path).await.map(drop), Err(Error::NoNode));
    assert_eq!(session.watch_children(&path).await.map(drop), Err(Error::NoNode));
    create(&session, &path).await;
    let (_, mut watch) = session.watch_exists(&path).await.unwrap();
    session.delete(&path, None).await.unwrap();
    assert_eq!(already(&mut watch), Some(Event::NodeDeleted));
}

pub(super) async fn a_dropped_watch_leaves_the_others_alone(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("node");
    create(&session, &path).await;
    let (_, _, dropped) = session.watch_data(&path).await.unwrap();
    let (_, mut kept) = session.watch_exists(&path).await.unwrap();
    let (_, _, mut children) = session.watch_children(&path).await.unwrap();
    drop(dropped);
    session.set_data(&path, b"", None).await.unwrap();
    assert_eq!(already(&mut kept), Some(Event::NodeDataChanged));
    let (_, _, last) = session.watch_data(&path).await.unwrap();
    drop(last);
    session.delete(&path, None).await.unwrap();
    assert_eq!(already(&mut children), Some(Event::NodeDeleted));
    // A watch that is requested just as the last one is dropped must not be removed with it.
    create(&session, &path).await;
    for _ in 0..20 {
        let (_, _, dropped) = session.watch_data(&path).await.unwrap();
        let asked = session.watch_data(&path);
        drop(dropped);
        let (_, _, mut watch) = asked.await.unwrap();
        session.set_data(&path, b"", None).await.unwrap();
        assert_eq!(already(&mut watch), Some(Event::NodeDataChanged));
    }
}

/// A session that may not read a node gets no events for it (since 3.9.2).
pub(super) async fn an_event_needs_the_right_to_read(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("hidden");
    let (_, mut beginning) = session.watch_exists(&path).await.unwrap();
    let (_, _, mut parent) = session.watch_children(&scene.path("")).await.unwrap();
    let blind = [Acl::new(Permissions::WRITE, "world", "anyone")];
    session.create(&path, b"", CreateMode::Persistent, &blind).await.unwrap();
    assert_eq!(already(&mut beginning), None);
    assert_eq!(already(&mut parent), Some(Event::NodeChildrenChanged));
}

/// Returns the events that a persistent watch has received, with paths relative to the scenario's node.
fn heard(scene: &Scene, watch: &mut PersistentWatch) -> Vec<(String, Event)> {
    let below = |path: &str| path.strip_prefix(&scene.path("")).expect("a path of the scenario").to_owned();
    let events = std::iter::from_fn(|| watch.next().now_or_never().flatten());
    let named = events.map(|event| match event {
        PersistentEvent::Node { path, event } => (below(&path), event),
        PersistentEvent::Resync => panic!("there was no reconnect"),
    });
    named.collect()
}

fn named(events: &[(&str, Event)]) -> Vec<(String, Event)> {
    events.iter().map(|(path, event)| ((*path).to_owned(), *event)).collect()
}

pub(super) async fn a_persistent_watch_hears_of_its_node_and_its_list_for_as_long_as_it_is_held(scene: &Scene) {
    let session = scene.session().await;
    let (path, child) = (scene.path("node"), scene.path("node/child"));
    let mut watch = session.watch_persistent(&path, WatchMode::Persistent).await.unwrap();
    for _ in 0..2 {
        create(&session, &path).await;
        session.set_data(&path, b"1", None).await.unwrap();
        session.set_data(&path, b"2", None).await.unwrap();
        create(&session, &child).await;
        session.set_data(&child, b"", None).await.unwrap();
        create(&session, &scene.path("node/child/grandchild")).await;
        session.delete(&scene.path("node/child/grandchild"), None).await.unwrap();
        session.delete(&child, None).await.unwrap();
        session.delete(&path, None).await.unwrap();
        let expected = named(&[
            ("/node", Event::NodeCreated),
            ("/node", Event::NodeDataChanged),
            ("/node", Event::NodeDataChanged),
            ("/node", Event::NodeChildrenChanged),
            ("/node", Event::NodeChildrenChanged),
            ("/node", Event::NodeDeleted),
        ]);
        assert_eq!(heard(scene, &mut watch), expected);
    }
}

pub(super) async fn a_recursive_watch_hears_of_every_node_below_and_of_no_list(scene: &Scene) {
    let session = scene.session().await;
    let (path, child) = (scene.path("node"), scene.path("node/child"));
    let mut watch = session.watch_persistent(&path, WatchMode::PersistentRecursive).await.unwrap();
    create(&session, &path).await;
    create(&session, &scene.path("node-beside")).await;
    let steps = vec![op_create(&child, CreateMode::Persistent), op_set(&child, None), op_set(&path, None)];
    session.multi(steps).await.unwrap();
    // The same session watches the list of children as well.
    let (_, _, mut list) = session.watch_children(&child).await.unwrap();
    create(&session, &scene.path("node/child/grandchild")).await;
    assert_eq!(already(&mut list), Some(Event::NodeChildrenChanged));
    session.delete(&scene.path("node/child/grandchild"), None).await.unwrap();
    session.delete(&child, None).await.unwrap();
    session.delete(&path, None).await.unwrap();
    let expected = named(&[
        ("/node", Event::NodeCreated),
        ("/node/child", Event::NodeCreated),
        ("/node/child", Event::NodeDataChanged),
        ("/node", Event::NodeDataChanged),
        ("/node/child/grandchild", Event::NodeCreated),
        ("/node/child/grandchild", Event::NodeDeleted),
        ("/node/child", Event::NodeDeleted),
        ("/node", Event::NodeDeleted),
    ]);
    assert_eq!(heard(scene, &mut watch), expected);
}

pub(super) async fn every_kind_of_watch_on_a_path_lives_by_itself(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("node");
    create(&session, &path).await;
    let mut persistent = session.watch_persistent(&path, WatchMode::Persistent).await.unwrap();
    let mut again = session.watch_persistent(&path, WatchMode::Persistent).await.unwrap();
    let mut recursive = session.watch_persistent(&path, WatchMode::PersistentRecursive).await.unwrap();
    let (_, _, mut data) = session.watch_data(&path).await.unwrap();
    session.set_data(&path, b"", None).await.unwrap();
    let changed = named(&[("/node", Event::NodeDataChanged)]);
    assert_eq!(already(&mut data), Some(Event::NodeDataChanged));
    for watch in [&mut persistent, &mut again, &mut recursive] {
        assert_eq!(heard(scene, watch), changed, "each reports it once");
    }
    let (_, _, dropped) = session.watch_data(&path).await.unwrap();
    drop((persistent, dropped));
    session.set_data(&path, b"", None).await.unwrap();
    assert_eq!(heard(scene, &mut again), changed, "another one of the same kind was dropped");
    assert_eq!(heard(scene, &mut recursive), changed);
    let (_, _, mut data) = session.watch_data(&path).await.unwrap();
    drop(again);
    session.set_data(&path, b"", None).await.unwrap();
    assert_eq!(heard(scene, &mut recursive), changed);
    assert_eq!(already(&mut data), Some(Event::NodeDataChanged));
    let (_, _, mut data) = session.watch_data(&path).await.unwrap();
    drop(recursive);
    session.set_data(&path, b"", None).await.unwrap();
    assert_eq!(already(&mut data), Some(Event::NodeDataChanged));
}

pub(super) async fn a_persistent_watch_ends_with_its_session(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    let mut watch = session.watch_persistent(&scene.path("node"), WatchMode::Persistent).await.unwrap();
    create(&other, &scene.path("node")).await;
    session.sync("/").await.unwrap();
    assert_eq!(heard(scene, &mut watch), named(&[("/node", Event::NodeCreated)]));
    soon(session.close()).await;
    assert_eq!(soon(watch.next()).await, None);
    let refused = session.watch_persistent(&scene.path("node"), WatchMode::Persistent).await;
    assert_eq!(refused.map(drop), Err(Error::NotConnected));
}
