//! Single requests: their success and each of their errors.

use std::time::Duration;

use super::scene::{Scene, create, create_as, soon, until};
use crate::engine::{Error, Multi, Op, SessionEvent};
use crate::util::znode::{Acl, CreateMode, Permissions, Stat};
use futures::{FutureExt, StreamExt};

fn anyone() -> Vec<Acl> {
    vec![Acl::anyone_all()]
}

pub(super) async fn a_created_node_is_told_with_its_stat(scene: &Scene) {
    let session = scene.session().await;
    let parent = session.exists(&scene.path("")).await.unwrap().unwrap();
    let path = scene.path("node");
    let (named, stat) = session.create(&path, b"seven b", CreateMode::Persistent, &anyone()).await.unwrap();
    assert_eq!(named, path);
    assert!(stat.czxid > parent.czxid);
    assert!(stat.ctime >= parent.ctime && stat.ctime > 1_000_000_000_000);
    let expected = Stat {
        czxid: stat.czxid,
        mzxid: stat.czxid,
        pzxid: stat.czxid,
        ctime: stat.ctime,
        mtime: stat.ctime,
        data_length: 7,
        ..Stat::default()
    };
    assert_eq!(stat, expected);
    assert_eq!(session.get_data(&path).await, Ok((b"seven b".to_vec(), stat)));
    assert_eq!(session.exists(&path).await, Ok(Some(stat)));
    let now = session.exists(&scene.path("")).await.unwrap().unwrap();
    let expected = Stat { cversion: parent.cversion + 1, num_children: 1, pzxid: stat.czxid, ..parent };
    assert_eq!(now, expected);
    session.delete(&path, None).await.unwrap();
    let now = session.exists(&scene.path("")).await.unwrap().unwrap();
    assert_eq!((now.cversion, now.num_children), (parent.cversion + 2, 0));
    assert!(now.pzxid > stat.czxid, "a deletion changes the children");
}

pub(super) async fn what_keeps_a_node_from_being_created(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("node");
    let create_with =
        async |path: String, acls: Vec<Acl>| session.create(&path, b"", CreateMode::Persistent, &acls).await.map(drop);
    assert_eq!(create_with(scene.path("no/node"), anyone()).await, Err(Error::NoNode));
    assert_eq!(create_with(path.clone(), Vec::new()).await, Err(Error::InvalidAcl));
    let unknown = Acl::new(Permissions::ALL, "no-such-scheme", "me");
    assert_eq!(create_with(path.clone(), vec![unknown]).await, Err(Error::InvalidAcl));
    assert_eq!(create_with(path.clone(), vec![Acl::creator_all()]).await, Err(Error::InvalidAcl));
    for (scheme, id) in [("digest", ":"), ("digest", "me:"), ("digest", "me"), ("ip", "127.0.0.1/33"), ("ip", "here")] {
        let wrong = vec![Acl::new(Permissions::ALL, scheme, id)];
        assert_eq!(create_with(path.clone(), wrong).await, Err(Error::InvalidAcl), "{scheme} {id}");
    }
    let nobody = Acl::new(Permissions::ALL, "world", "nobody");
    assert_eq!(create_with(path.clone(), vec![nobody.clone()]).await, Err(Error::InvalidAcl));
    assert_eq!(
        create_with(scene.path("no/node"), vec![nobody]).await,
        Err(Error::InvalidAcl),
        "the ACL is checked before the parent"
    );
    assert_eq!(create_with(path.clone(), anyone()).await, Ok(()));
    assert_eq!(create_with(path, anyone()).await, Err(Error::NodeExists));
    assert_eq!(
        create_with("/".to_owned(), anyone()).await,
        Err(Error::BadArguments("can not create root node".to_owned()))
    );
}

pub(super) async fn paths_are_checked_before_anything_is_sent(scene: &Scene) {
    let session = scene.session().await;
    let faults = [
        ("", "path cannot be empty"),
        ("a", "path must start with '/'"),
        ("/a//b", "empty node is not allowed in path"),
        ("//a", "empty node is not allowed in path"),
        ("/a/./b", "relative path is not allowed"),
        ("/a/../b", "relative path is not allowed"),
        ("/a/", "path must not end with '/'"),
        ("/a\u{1}", "unsupported characters in path"),
        ("/a\u{e000}b", "unsupported characters in path"),
    ];
    for (path, why) in faults {
        let refused = Error::BadArguments(why.to_owned());
        assert_eq!(session.exists(path).await, Err(refused.clone()), "{path:?}");
        assert_eq!(session.get_data(path).await.map(drop), Err(refused.clone()), "{path:?}");
        assert_eq!(session.list_children(path).await.map(drop), Err(refused.clone()), "{path:?}");
        assert_eq!(session.delete(path, None).await, Err(refused.clone()), "{path:?}");
        assert_eq!(session.set_data(path, b"", None).await.map(drop), Err(refused.clone()), "{path:?}");
        assert_eq!(session.sync(path).await, Err(refused.clone()), "{path:?}");
        assert_eq!(session.watch_exists(path).await.map(drop), Err(refused.clone()), "{path:?}");
        let created = session.create(path, b"", CreateMode::Persistent, &anyone()).await;
        assert_eq!(created.map(drop), Err(refused), "{path:?}");
    }
    for name in [".", "..", "\u{1f980}"] {
        let path = scene.path(name);
        let created = session.create(&path, b"", CreateMode::Persistent, &anyone()).await;
        let refused = Error::BadArguments("the server refused the arguments".to_owned());
        assert_eq!(created.map(drop), Err(refused), "{path}: the server refuses it");
        assert_eq!(session.exists(&path).await, Ok(None));
    }
    assert_eq!(session.delete("/", None).await, Err(Error::BadArguments("can not delete root node".to_owned())));
}

pub(super) async fn an_ephemeral_node_has_an_owner_and_no_children(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("mine");
    let (_, stat) = create_as(&session, &path, CreateMode::Ephemeral).await;
    assert_eq!(stat.ephemeral_owner, session.id());
    let below = format!("{path}/child");
    for mode in [CreateMode::Persistent, CreateMode::EphemeralSequential] {
        let created = session.create(&below, b"", mode, &anyone()).await;
        assert_eq!(created.map(drop), Err(Error::NoChildrenForEphemerals));
    }
}

pub(super) async fn sequential_names_count_all_creations(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("n-");
    for (number, mode) in [(0, CreateMode::PersistentSequential), (1, CreateMode::EphemeralSequential)] {
        let (named, _) = create_as(&session, &path, mode).await;
        assert_eq!(named, format!("{path}{number:010}"));
    }
    session.delete(&format!("{path}0000000001"), None).await.unwrap();
    create(&session, &scene.path("other")).await;
    let (named, _) = create_as(&session, &path, CreateMode::PersistentSequential).await;
    assert_eq!(named, format!("{path}0000000003"), "the other node counted, the deletion did not");
    let (named, _) = create_as(&session, &format!("{}/", scene.path("")), CreateMode::PersistentSequential).await;
    assert_eq!(named, scene.path("0000000004"));
    create(&session, &scene.path("n-0000000006")).await;
    let created = session.create(&path, b"", CreateMode::PersistentSequential, &anyone()).await;
    assert_eq!(created.map(drop), Err(Error::NodeExists));
}

pub(super) async fn what_keeps_a_node_from_being_deleted(scene: &Scene) {
    let session = scene.session().await;
    let (path, child) = (scene.path("node"), scene.path("node/child"));
    assert_eq!(session.delete(&path, None).await, Err(Error::NoNode));
    assert_eq!(session.delete(&child, None).await, Err(Error::NoNode));
    create(&session, &path).await;
    create(&session, &child).await;
    assert_eq!(session.delete(&path, Some(1)).await, Err(Error::BadVersion), "the version is checked first");
    assert_eq!(session.delete(&path, Some(0)).await, Err(Error::NotEmpty));
    assert_eq!(session.delete(&child, Some(0)).await, Ok(()));
    assert_eq!(session.delete(&path, Some(-1)).await, Ok(()), "-1 means any version");
    assert_eq!(session.exists(&path).await, Ok(None));
}

pub(super) async fn data_has_versions(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("node");
    assert_eq!(session.set_data(&path, b"x", None).await, Err(Error::NoNode));
    let created = create(&session, &path).await;
    let first = session.set_data(&path, b"1", Some(0)).await.unwrap();
    assert_eq!((first.version, first.data_length, first.czxid), (1, 1, created.czxid));
    assert!(first.mzxid > created.mzxid);
    assert_eq!(session.set_data(&path, b"no", Some(0)).await, Err(Error::BadVersion));
    let second = session.set_data(&path, b"2", None).await.unwrap();
    let third = session.set_data(&path, b"3", Some(-1)).await.unwrap();
    assert_eq!((second.version, third.version), (2, 3));
    assert_eq!(session.get_data(&path).await, Ok((b"3".to_vec(), third)));
}

pub(super) async fn what_is_not_there_cannot_be_read(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("nothing");
    assert_eq!(session.exists(&path).await, Ok(None));
    assert_eq!(session.get_data(&path).await, Err(Error::NoNode));
    assert_eq!(session.list_children(&path).await, Err(Error::NoNode));
    assert_eq!(session.sync(&path).await, Ok(()), "a sync does not check the path");
}

pub(super) async fn of_many_reads_each_is_answered_by_itself(scene: &Scene) {
    let session = scene.session().await;
    let [full, empty, closed, missing] = ["full", "empty", "closed", "missing"].map(|name| scene.path(name));
    let data = vec![7; 100_000];
    let rights = Acl::new(Permissions::ADMIN, "world", "anyone");
    let create = async |path: &String, data: &[u8], acl: &[Acl]| {
        session.create(path, data, CreateMode::Persistent, acl).await.expect("created").1
    };
    let first = create(&full, &data, &anyone()).await;
    let second = create(&empty, b"", &anyone()).await;
    create(&closed, b"secret", &[rights]).await;
    let read = session.get_many(&[full.clone(), missing, closed, empty.clone(), full]).await;
    let large = Ok((data, first));
    let expected = vec![large.clone(), Err(Error::NoNode), Err(Error::NoAuth), Ok((vec![], second)), large];
    assert_eq!(read, Ok(expected));
    assert_eq!(session.get_many(&[]).await, Ok(vec![]));
    let bad = session.get_many(&[empty, "bad".to_owned()]).await;
    let bad = bad.and_then(|reads| reads.into_iter().collect::<Result<Vec<_>, _>>());
    assert!(matches!(bad, Err(Error::BadArguments(_))), "{bad:?}");
}

pub(super) async fn children_are_listed(scene: &Scene) {
    let session = scene.session().await;
    for name in ["b", "a", "c"] {
        create(&session, &scene.path(name)).await;
    }
    create(&session, &scene.path("a/grandchild")).await;
    let (mut names, stat) = session.list_children(&scene.path("")).await.unwrap();
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(session.exists(&scene.path("")).await, Ok(Some(stat)));
}

pub(super) async fn an_acl_is_read_and_hides_hashes(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("owned");
    assert_eq!(session.get_acl(&path).await, Err(Error::NoNode));
    let digest = |permissions, id: &str| Acl::new(permissions, "digest", id);
    let world = |permissions| Acl::new(permissions, "world", "anyone");
    let (all, read) = (Permissions::ALL, Permissions::READ);
    let create = async |path: &str, acls: Vec<Acl>| {
        let (_, stat) = session.create(path, b"", CreateMode::Persistent, &acls).await.unwrap();
        stat
    };
    let stat = create(&path, anyone()).await;
    assert_eq!(session.get_acl(&path).await, Ok((anyone(), stat)));
    let (hidden, shown, closed) = (scene.path("hidden"), scene.path("shown"), scene.path("nobody"));
    let stat = create(&hidden, vec![digest(all, "me:hash"), world(read)]).await;
    assert_eq!(session.get_acl(&hidden).await, Ok((vec![digest(all, "me:x"), world(read)], stat)));
    let administers = vec![digest(all, "me:hash"), world(Permissions::ADMIN)];
    let twice = [administers.clone(), administers.clone()].concat();
    let stat = create(&shown, twice).await;
    assert_eq!(session.get_acl(&shown).await, Ok((administers, stat)), "even if it is unreadable, each entry once");
    create(&closed, vec![digest(all, "me:hash"), world(Permissions::WRITE)]).await;
    assert_eq!(session.get_acl(&closed).await, Err(Error::NoAuth));
}

pub(super) async fn what_is_not_granted_is_refused(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("closed");
    let rights = Acl::new(Permissions::ADMIN | Permissions::CREATE, "world", "anyone");
    let (_, stat) = session.create(&path, b"secret", CreateMode::Persistent, &[rights]).await.unwrap();
    assert_eq!(stat.data_length, 6);
    assert_eq!(session.exists(&path).await, Err(Error::NoAuth), "since 3.9");
    assert_eq!(session.watch_exists(&path).await.map(drop), Err(Error::NoAuth));
    assert_eq!(session.get_data(&path).await, Err(Error::NoAuth));
    assert_eq!(session.list_children(&path).await, Err(Error::NoAuth));
    assert_eq!(session.set_data(&path, b"", None).await, Err(Error::NoAuth));
    assert_eq!(session.set_data(&path, b"", Some(9)).await, Err(Error::NoAuth));
    assert_eq!(session.watch_data(&path).await.map(drop), Err(Error::NoAuth));
    let child = format!("{path}/child");
    assert_eq!(session.delete(&child, None).await, Err(Error::NoAuth), "before the node is looked up");
    create(&session, &child).await;
    assert_eq!(session.delete(&child, None).await, Err(Error::NoAuth));
    let check = Op::Check { path, version: None };
    let refused = Multi::Refused { index: 0, error: Error::NoAuth };
    assert_eq!(session.multi(vec![check]).await, Ok(refused));

    let sealed = scene.path("sealed");
    let rights = Acl::new(Permissions::READ, "world", "anyone");
    session.create(&sealed, b"", CreateMode::Persistent, &[rights]).await.unwrap();
    let child = format!("{sealed}/child");
    let created = session.create(&child, b"", CreateMode::Persistent, &anyone()).await;
    assert_eq!(created.map(drop), Err(Error::NoAuth));
    assert_eq!(session.delete(&sealed, None).await, Ok(()), "only the parent's ACL counts");
}

pub(super) async fn a_spent_container_is_removed_and_an_unused_one_is_not(scene: &Scene) {
    let session = scene.session().await;
    let (used, unused) = (scene.path("used"), scene.path("unused"));
    let (_, stat) = create_as(&session, &used, CreateMode::Container).await;
    assert_eq!(stat.ephemeral_owner, 0);
    create_as(&session, &unused, CreateMode::Container).await;
    create(&session, &format!("{used}/child")).await;
    let (_, mut watch) = session.watch_exists(&used).await.unwrap();
    session.delete(&format!("{used}/child"), None).await.unwrap();
    assert_eq!(soon(&mut watch).await, crate::engine::Event::NodeDeleted);
    assert_eq!(session.exists(&used).await, Ok(None));
    assert!(session.exists(&unused).await.unwrap().is_some());
}

pub(super) async fn a_node_with_a_time_to_live_is_removed_without_children_and_writes(scene: &Scene) {
    let session = scene.session().await;
    let mode = CreateMode::PersistentTtl(Duration::from_secs(2));
    let (parent, written) = (scene.path("parent"), scene.path("written"));
    let (_, stat) = create_as(&session, &parent, mode).await;
    assert_eq!((stat.ephemeral_owner, stat.version), (0, 0));
    create_as(&session, &written, mode).await;
    let child = format!("{parent}/child");
    create(&session, &child).await;
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        session.set_data(&written, b"", None).await.unwrap();
    }
    assert!(session.exists(&parent).await.unwrap().is_some(), "it has a child");
    assert!(session.exists(&written).await.unwrap().is_some(), "it was written");
    let (_, mut watch) = session.watch_exists(&parent).await.unwrap();
    session.delete(&child, None).await.unwrap();
    assert_eq!(soon(&mut watch).await, crate::engine::Event::NodeDeleted);
    let (found, watch) = session.watch_exists(&written).await.unwrap();
    if found.is_some() {
        assert_eq!(soon(watch).await, crate::engine::Event::NodeDeleted);
    }

    let in_transaction = super::multi::op_create(&written, mode);
    assert!(matches!(session.multi(vec![in_transaction]).await, Ok(Multi::Committed(_))));
    until(|| async { session.exists(&written).await == Ok(None) }).await;
}

pub(super) async fn a_time_to_live_has_limits(scene: &Scene) {
    let session = scene.session().await;
    let path = scene.path("ttl");
    for wrong in [Duration::ZERO, Duration::from_micros(999), CreateMode::MAX_TTL + Duration::from_millis(1)] {
        let created = session.create(&path, b"", CreateMode::PersistentTtl(wrong), &anyone()).await;
        assert!(matches!(created, Err(Error::BadArguments(_))), "{wrong:?}: {created:?}");
    }
    for right in [Duration::from_secs(60), CreateMode::MAX_TTL] {
        create_as(&session, &path, CreateMode::PersistentTtl(right)).await;
        session.delete(&path, None).await.unwrap();
    }
}

pub(super) async fn a_request_too_large_costs_the_connection_and_not_the_session(scene: &Scene) {
    let mut opened = scene.open().await;
    let session = &opened.session;
    let path = scene.path("node");
    create_as(session, &path, CreateMode::Ephemeral).await;
    // The header takes 8 bytes; the lengths of path and data and the version take 4 each.
    let rest = 8 + 4 + path.len() + 4 + 4;
    let most = vec![0; 0xf_ffff - rest];
    assert!(session.set_data(&path, &most, None).await.is_ok());
    let more = vec![0; most.len() + 1];
    assert_eq!(session.set_data(&path, &more, None).await, Err(Error::ConnectionLoss));
    let event = soon(opened.events.next()).await;
    assert!(matches!(event, Some(SessionEvent::Disconnected(_))), "{event:?}");
    assert_eq!(soon(opened.events.next()).await, Some(SessionEvent::Connected));
    until(|| async { session.exists(&path).await.is_ok_and(|found| found.is_some()) }).await;
}

/// Servers limit the length of requests, not of their answers. Java clients have a limit of their own; the client
/// crate has none.
pub(super) async fn a_listing_is_told_however_long_it_is(scene: &Scene) {
    let mut opened = scene.open().await;
    let session = &opened.session;
    let dir = scene.path("crowded");
    create(session, &dir).await;
    let child = |number: usize| format!("{dir}/{number:0>250}");
    for chunk in 0..10 {
        let ops =
            (0..1_000).map(|number| super::multi::op_create(&child(chunk * 1_000 + number), CreateMode::Persistent));
        assert!(matches!(soon(session.multi(ops.collect())).await, Ok(Multi::Committed(_))));
    }
    let (names, stat) = soon(session.list_children(&dir)).await.unwrap();
    assert_eq!((names.len(), stat.num_children), (10_000, 10_000));
    assert!(names.iter().map(String::len).sum::<usize>() > 2 * 0xf_ffff, "longer than a request may be");
    let (names, _, watch) = soon(session.watch_children(&dir)).await.unwrap();
    assert_eq!(names.len(), 10_000);
    session.delete(&child(0), None).await.unwrap();
    assert_eq!(soon(watch).await, crate::engine::Event::NodeChildrenChanged);
    assert_eq!(opened.events.next().now_or_never(), None, "the connection stays");
}
