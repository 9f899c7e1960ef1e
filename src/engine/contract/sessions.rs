//! How a session ends.

use futures::StreamExt;

use super::scene::{Scene, create_as, soon, until};
use crate::engine::{Error, Event, SessionEvent};
use crate::util::znode::{Acl, CreateMode};

pub(super) async fn closing_ends_nodes_and_watches(scene: &Scene) {
    let mut opened = scene.open().await;
    let (session, other) = (opened.session, scene.session().await);
    let path = scene.path("mine");
    create_as(&session, &path, CreateMode::Ephemeral).await;
    let (_, mut of_other) = other.watch_exists(&path).await.unwrap();
    let (_, _, mut own) = session.watch_children(&scene.path("")).await.unwrap();
    let closed = session.close();
    assert_eq!(session.exists(&path).await, Err(Error::NotConnected), "no request is accepted any more");
    soon(closed).await;
    assert_eq!(soon(&mut of_other).await, Event::NodeDeleted);
    assert_eq!(other.exists(&path).await, Ok(None));
    let heard = soon(&mut own).await;
    assert!(
        matches!(heard, Event::SessionEnded | Event::NodeChildrenChanged),
        "the session's end, or the deletion of its own node: {heard:?}"
    );
    assert_eq!(soon(opened.events.next()).await, Some(SessionEvent::Closed));
    assert_eq!(soon(opened.events.next()).await, None);
    soon(session.close()).await;
}

pub(super) async fn what_was_handed_over_before_a_close_is_carried_out_and_answered(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    let anyone = [Acl::anyone_all()];
    let creates: Vec<_> = (0..3_000)
        .map(|number| session.create(&scene.path(&format!("{number}")), b"", CreateMode::Persistent, &anyone))
        .collect();
    let listed = session.list_children(&scene.path(""));
    let closed = session.close();
    for (number, created) in creates.into_iter().enumerate() {
        assert_eq!(soon(created).await.expect("carried out").0, scene.path(&format!("{number}")));
    }
    assert_eq!(soon(listed).await.expect("an answer").0.len(), 3_000);
    soon(closed).await;
    assert_eq!(other.list_children(&scene.path("")).await.expect("an answer").0.len(), 3_000);
}

pub(super) async fn a_session_dropped_is_closed(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    let path = scene.path("mine");
    create_as(&session, &path, CreateMode::Ephemeral).await;
    let (_, mut watch) = other.watch_exists(&path).await.unwrap();
    let (_, own) = session.watch_exists(&scene.path("never")).await.unwrap();
    let pending = session.create(&scene.path("kept"), b"", CreateMode::Persistent, &[Acl::anyone_all()]);
    drop((session, pending));
    assert_eq!(soon(&mut watch).await, Event::NodeDeleted);
    assert_eq!(soon(own).await, Event::SessionEnded);
    until(|| async { other.exists(&scene.path("kept")).await.is_ok_and(|found| found.is_some()) }).await;
}

pub(super) async fn sessions_do_not_see_each_others_end(scene: &Scene) {
    let (session, other) = (scene.session().await, scene.session().await);
    assert_ne!(session.id(), other.id());
    assert_eq!(session.timeout(), super::scene::TIMEOUT);
    create_as(&session, &scene.path("mine"), CreateMode::Ephemeral).await;
    soon(other.close()).await;
    let stat = session.exists(&scene.path("mine")).await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, session.id());
}
