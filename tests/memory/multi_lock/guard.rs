//! What a holder can do.

use zookeeper_recipes::multi_lock::{Error, LockLost};
use zookeeper_recipes::mutex::revoke;
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{PATHS, acquired, lines, lines_have, setup};
use crate::fixture::{SOON, still_pending, within};

#[tokio::test(start_paused = true)]
async fn the_fence_is_refused_once_one_of_the_nodes_is_gone() {
    for at in 0..3 {
        let (server, [client]) = setup().await;
        server.create_by_hand("/work", "", CreateMode::Persistent).expect("a new node");
        let guard = acquired(&client).await;
        let fence = guard.fence();
        let write = |data: &str| client.transaction().check(&fence).set_data("/work", data, None).commit();
        write("held").await.expect("all are held");
        let node = guard.node_paths().nth(at).expect("three").to_owned();
        server.delete_by_hand(&node).expect("it is there");
        let refused = write("late").await.expect_err("one is gone");
        assert_eq!(refused.kind(), ErrorKind::Fenced, "{refused}");
        assert_eq!(server.get("/work").as_deref(), Some(&b"held"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn all_are_lost_with_any_of_them() {
    for (at, path) in PATHS.into_iter().enumerate() {
        let (server, [client]) = setup().await;
        let guard = acquired(&client).await;
        let mut lost = Box::pin(guard.lost());
        still_pending("all are held", &mut lost).await;
        let node = guard.node_paths().nth(at).expect("three").to_owned();
        server.delete_by_hand(&node).expect("it is there");
        within("it is told", SOON, lost).await;
        assert!(!guard.is_held());
        guard.run(std::future::pending::<()>()).await.expect_err("one is lost");
        match guard.release().await {
            Err(Error::Lost { path: lost, .. }) => assert_eq!(&*lost, path),
            other => panic!("{other:?}"),
        }
        assert_eq!((lines(&server), server.watches()), ([0, 0, 0], 0));
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_those_of_each_lock() {
    let (server, [client]) = setup().await;
    let guard = acquired(&client).await;
    assert_eq!(guard.paths().collect::<Vec<_>>(), PATHS);
    for (path, node) in PATHS.into_iter().zip(guard.node_paths()) {
        assert_eq!(guard.fencing_token(path), server.stat(node).map(|stat| stat.czxid));
    }
    assert_eq!(guard.fencing_token("/locks/other"), None);
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    drop(guard);
    lines_have(&server, [0, 0, 0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_asked_to_release_by_the_node_of_any_of_them() {
    for at in 0..3 {
        let (server, [one, two]) = setup().await;
        let guard = acquired(&one).await;
        let mut asked = Box::pin(guard.on_revoke());
        still_pending("no other client has asked", &mut asked).await;
        let node = guard.node_paths().nth(at).expect("three").to_owned();
        revoke(&two, &node).await.expect("it is marked");
        assert_eq!(within("it is asked", SOON, asked).await, Ok(()));
        assert_eq!(guard.on_revoke().await, Ok(()), "it was asked before");
        assert!(guard.is_held(), "it decides");
        // A request to release one lock does not hide that another is lost.
        let other = guard.node_paths().nth((at + 1) % 3).expect("three").to_owned();
        server.delete_by_hand(&other).expect("it is there");
        within("it is told", SOON, guard.lost()).await;
        assert_eq!(guard.on_revoke().await, Err(LockLost));
    }
}
