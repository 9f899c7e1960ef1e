//! Which event resolves which watch, and when.

use super::multi::{op_create, op_delete, op_set};
use super::scene::{Scene, already, create, soon};
use crate::backend::{Error, Event};
use crate::types::{Acl, CreateMode, Permissions};

pub(super) async fn a_data_watch_hears_of_data_and_of_the_end(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    let path = scene.path("node");
    create(&session, &path).await;
    let (_, _, mut watch) = session.watch_data(&path).await.unwrap();
    create(&other, &scene.path("node/child")).await;
    session.sync("/").await.unwrap();
    assert_eq!(already(&mut watch), None, "children are not its concern");
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
    assert_eq!(already(&mut watch), None, "data is not its concern");
    create(&other, &child).await;
    assert_eq!(soon(&mut watch).await, Event::NodeChildrenChanged);
    let (_, _, mut watch) = session.watch_children(&path).await.unwrap();
    other.set_data(&child, b"new", None).await.unwrap();
    create(&other, &scene.path("node/child/grandchild")).await;
    session.sync("/").await.unwrap();
    assert_eq!(already(&mut watch), None, "nor what happens in its children");
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
        assert_eq!(already(watch), None, "it is spent, or not concerned");
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
    assert_eq!(already(&mut beginning), Some(Event::NodeCreated), "though it is gone by now");
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
    // One that is asked for just as the last one is dropped must not be taken away with it.
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

/// Who may not read a node does not hear of it (since 3.9.2).
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
