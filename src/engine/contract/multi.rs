//! Transactions.

use super::scene::{Scene, create};
use crate::engine::{Error, Multi, Op, OpResult};
use crate::util::znode::{Acl, CreateMode, Permissions};

pub(super) fn op_create(path: &str, mode: CreateMode) -> Op {
    Op::Create { path: path.to_owned(), data: b"new".to_vec(), mode, acls: vec![Acl::anyone_all()] }
}

pub(super) fn op_set(path: &str, version: Option<i32>) -> Op {
    Op::SetData { path: path.to_owned(), data: b"set".to_vec(), version }
}

pub(super) fn op_delete(path: &str, version: Option<i32>) -> Op {
    let path = path.to_owned();
    Op::Delete { path, version }
}

pub(super) fn op_check(path: &str, version: Option<i32>) -> Op {
    let path = path.to_owned();
    Op::Check { path, version }
}

fn refused(index: usize, error: Error) -> Result<Multi, Error> {
    Ok(Multi::Refused { index, error })
}

pub(super) async fn a_transaction_sees_its_own_earlier_steps(scene: &Scene) {
    let session = scene.session().await;
    let (parent, child, last) = (scene.path("p"), scene.path("p/c"), scene.path("p/s-"));
    let committed = session
        .multi(vec![
            op_create(&parent, CreateMode::Persistent),
            op_check(&parent, Some(0)),
            op_create(&child, CreateMode::Ephemeral),
            op_set(&parent, Some(0)),
            op_check(&parent, Some(1)),
            op_delete(&child, Some(0)),
            op_create(&last, CreateMode::EphemeralSequential),
            op_create(&last, CreateMode::PersistentSequential),
        ])
        .await
        .unwrap();
    let Multi::Committed(results) = committed else { panic!("{committed:?}") };
    let OpResult::SetData { stat: set } = results[3] else { panic!("{results:?}") };
    let created = |path: &str| OpResult::Create { path: path.to_owned() };
    let expected = [
        created(&parent),
        OpResult::Check,
        created(&child),
        OpResult::SetData { stat: set },
        OpResult::Check,
        OpResult::Delete,
        created(&format!("{last}0000000001")),
        created(&format!("{last}0000000002")),
    ];
    assert_eq!(results, expected);
    assert_eq!((set.version, set.num_children, set.mzxid), (1, 1, set.czxid), "the stat at that step");
    let (data, stat) = session.get_data(&parent).await.unwrap();
    assert_eq!((data.as_slice(), stat.num_children, stat.cversion), (&b"set"[..], 2, 4));
    let numbered = session.exists(&format!("{last}0000000001")).await.unwrap().unwrap();
    assert_eq!((numbered.czxid, numbered.ephemeral_owner), (stat.czxid, session.id()), "one transaction, one zxid");
}

pub(super) async fn a_refused_transaction_changes_nothing(scene: &Scene) {
    let session = scene.session().await;
    let (a, b) = (scene.path("a"), scene.path("b"));
    create(&session, &a).await;
    let before = session.get_data(&a).await.unwrap();
    let root = session.exists(&scene.path("")).await.unwrap();
    let outcome = session
        .multi(vec![
            op_set(&a, Some(0)),
            op_create(&b, CreateMode::Persistent),
            op_delete(&a, None),
            op_check(&b, Some(3)),
            op_check(&scene.path("no"), None),
        ])
        .await;
    assert_eq!(outcome, refused(3, Error::BadVersion), "the first step that fails is reported");
    assert_eq!(session.get_data(&a).await.unwrap(), before);
    assert_eq!(session.exists(&b).await, Ok(None));
    assert_eq!(session.exists(&scene.path("")).await.unwrap(), root);
    let (named, _) =
        session.create(&scene.path("n-"), b"", CreateMode::PersistentSequential, &[Acl::anyone_all()]).await.unwrap();
    assert_eq!(named, scene.path("n-0000000001"), "a refused transaction uses up no numbers");
}

pub(super) async fn each_step_can_refuse(scene: &Scene) {
    let session = scene.session().await;
    let (a, no, mine) = (scene.path("a"), scene.path("no"), scene.path("mine"));
    create(&session, &a).await;
    super::scene::create_as(&session, &mine, CreateMode::Ephemeral).await;
    let nobody = Op::Create {
        path: scene.path("x"),
        data: Vec::new(),
        mode: CreateMode::Persistent,
        acls: vec![Acl::new(Permissions::ALL, "no-such-scheme", "")],
    };
    let steps = [
        (op_check(&no, None), Error::NoNode),
        (op_check(&a, Some(1)), Error::BadVersion),
        (op_create(&a, CreateMode::Persistent), Error::NodeExists),
        (op_create(&format!("{no}/x"), CreateMode::Persistent), Error::NoNode),
        (op_create(&format!("{mine}/x"), CreateMode::Persistent), Error::NoChildrenForEphemerals),
        (nobody, Error::InvalidAcl),
        (op_set(&no, None), Error::NoNode),
        (op_set(&a, Some(1)), Error::BadVersion),
        (op_delete(&no, None), Error::NoNode),
        (op_delete(&a, Some(1)), Error::BadVersion),
        (op_delete(&scene.path(""), None), Error::NotEmpty),
    ];
    for (step, error) in steps {
        let said = format!("{step:?}");
        let outcome = session.multi(vec![op_check(&a, Some(0)), step, op_set(&a, None)]).await;
        assert_eq!(outcome, refused(1, error), "{said}");
    }
}

pub(super) async fn odd_transactions(scene: &Scene) {
    let session = scene.session().await;
    let a = scene.path("a");
    assert_eq!(session.multi(Vec::new()).await, Ok(Multi::Committed(Vec::new())));
    let bad = session.multi(vec![op_create(&a, CreateMode::Persistent), op_delete("/x/", None)]).await;
    assert_eq!(bad, Err(Error::BadArguments("path must not end with '/'".to_owned())));
    let mut without_acl = op_create(&a, CreateMode::Persistent);
    if let Op::Create { acls, .. } = &mut without_acl {
        acls.clear();
    }
    assert_eq!(session.multi(vec![without_acl]).await, Err(Error::InvalidAcl));
    assert_eq!(session.exists(&a).await, Ok(None));
    let flicker = session.multi(vec![op_create(&a, CreateMode::Persistent), op_delete(&a, None)]).await;
    assert!(matches!(flicker, Ok(Multi::Committed(_))), "{flicker:?}");
    assert_eq!(session.exists(&a).await, Ok(None));
}
