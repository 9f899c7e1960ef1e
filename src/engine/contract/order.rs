//! The order of requests, replies and what others see.

use super::scene::{Scene, create, soon};
use crate::util::znode::{Acl, CreateMode};

pub(super) async fn requests_are_carried_out_in_the_order_of_the_calls(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("node");
    let anyone = [Acl::anyone_all()];
    let before = session.exists(&path);
    let created = session.create(&path, b"0", CreateMode::Persistent, &anyone);
    let first = session.get_data(&path);
    let set = session.set_data(&path, b"1", Some(0));
    let second = session.get_data(&path);
    let synced = session.sync(&path);
    let deleted = session.delete(&path, Some(1));
    let after = session.exists(&path);
    // Awaited in reverse: the order of the awaits does not matter.
    assert_eq!(soon(after).await, Ok(None));
    assert_eq!(deleted.await, Ok(()));
    assert_eq!(synced.await, Ok(()));
    assert_eq!(second.await.unwrap().0, b"1");
    assert_eq!(set.await.unwrap().version, 1);
    assert_eq!(first.await.unwrap().0, b"0");
    assert_eq!(created.await.unwrap().0, path);
    assert_eq!(before.await, Ok(None));
}

pub(super) async fn a_reply_that_nobody_awaits_changes_nothing(scene: &Scene) {
    let session = scene.session().await;
    let anyone = [Acl::anyone_all()];
    for name in ["a", "b"] {
        drop(session.create(&scene.path(name), b"", CreateMode::Persistent, &anyone));
    }
    drop(session.delete(&scene.path("a"), None));
    let (names, _) = session.list_children(&scene.path("")).await.unwrap();
    assert_eq!(names, ["b"]);
    // A watch whose reply is dropped is removed; a later one works.
    drop(session.watch_data(&scene.path("b")));
    let (_, _, watch) = session.watch_data(&scene.path("b")).await.unwrap();
    session.set_data(&scene.path("b"), b"", None).await.unwrap();
    assert_eq!(soon(watch).await, crate::engine::Event::NodeDataChanged);
}

pub(super) async fn a_sync_shows_what_others_wrote(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    for round in 0..20 {
        let path = scene.path(&format!("node-{round}"));
        create(&other, &path).await;
        let (synced, found) = (session.sync("/"), session.exists(&path));
        assert_eq!(synced.await, Ok(()));
        assert!(found.await.unwrap().is_some(), "round {round}");
    }
}

pub(super) async fn the_latest_transaction_is_no_earlier_than_any_that_was_told(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    for round in 0..20 {
        let path = scene.path(&format!("node-{round}"));
        let (_, stat) = session.create(&path, b"", CreateMode::Persistent, &[Acl::anyone_all()]).await.unwrap();
        assert!(session.latest_zxid() >= stat.czxid, "round {round}");
        let before = session.latest_zxid();
        let written = other.set_data(&path, b"", None).await.unwrap();
        assert!(before < written.mzxid, "another session's write does not count yet");
        session.sync("/").await.unwrap();
        let read = session.exists(&path).await.unwrap().unwrap();
        assert!(session.latest_zxid() >= read.mzxid, "round {round}");
    }
}

pub(super) async fn create_and_list_in_one_flight(scene: &Scene) {
    let session = scene.session().await;
    for number in 0..20 {
        let created = session.create(&scene.path("n-"), b"", CreateMode::EphemeralSequential, &[Acl::anyone_all()]);
        let listed = session.list_children(&scene.path(""));
        let (path, stat) = created.await.unwrap();
        assert_eq!(path, scene.path(&format!("n-{number:010}")));
        let (names, parent) = listed.await.unwrap();
        assert_eq!(names.len(), number + 1);
        assert_eq!(parent.pzxid, stat.czxid);
    }
}
