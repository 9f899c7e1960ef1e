//! A tree is deleted as a whole, whatever goes wrong, and nothing beside it.

use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::fixture::{SOON, within};

/// A server with these nodes, and a client.
async fn tree(paths: &[&str]) -> (TestingServer, Client) {
    let server = TestingServer::start();
    for path in paths {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("created");
    }
    let client = server.client().await.expect("a client");
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn a_list_for_each_node_and_a_transaction_for_a_hundred() {
    let (server, client) = tree(&["/tree", "/tree/a", "/tree/a/b", "/tree/c", "/treetop"]).await;
    for n in 0..246 {
        server.create_by_hand(&format!("/tree/a/b/{n}"), "", CreateMode::Persistent).expect("created");
    }
    let before = client.request_counts();
    client.delete_recursive("/tree").await.expect("deleted");
    let spent = client.request_counts() - before;
    assert_eq!(server.paths(), ["/treetop"]);
    assert_eq!((spent.lists, spent.multis, spent.total()), (250, 3, 253));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_deleted_as_a_whole_is_left_as_it_is() {
    let paths = ["/tree", "/tree/a", "/tree/b"];
    let (server, client) = tree(&paths).await;
    let failure = async |path: &str| client.delete_recursive(path).await.expect_err("it cannot be deleted").kind();
    assert_eq!(failure("/none").await, ErrorKind::NoNode);
    assert_eq!(failure("/").await, ErrorKind::InvalidPath);
    assert_eq!(failure("/zookeeper").await, ErrorKind::InvalidArgument);
    assert_eq!(failure("/zookeeper/quota/a").await, ErrorKind::InvalidArgument);
    server.deny("/tree/b");
    assert_eq!(failure("/tree").await, ErrorKind::NoAuth);
    assert_eq!(server.paths(), paths);
    server.allow("/tree/b");
    client.delete_recursive("/tree").await.expect("deleted");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_made_up_for() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, client) = tree(&["/tree", "/tree/a"]).await;
        server.lose_next_reply(&client, Operation::Multi, loss);
        client.delete_recursive("/tree").await.expect("deleted");
        assert_eq!((server.lost_replies(), server.paths().len()), (1, 0), "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_client_has_created_after_it_was_deleted_stays() {
    let (server, client) = tree(&["/tree", "/tree/a"]).await;
    server.lose_next_reply(&client, Operation::Multi, Loss::Applied);
    let deleting = tokio::spawn(async move { client.delete_recursive("/tree").await });
    within("it is deleted", SOON, server.until(|| server.paths().is_empty())).await;
    server.create_by_hand("/tree", "theirs", CreateMode::Persistent).expect("created");
    deleting.await.expect("no panic").expect("deleted");
    assert_eq!(server.get("/tree").as_deref(), Some(&b"theirs"[..]));
}

#[tokio::test(start_paused = true)]
async fn two_that_delete_the_same_tree_are_both_done() {
    let (server, client) = tree(&["/tree"]).await;
    for n in 0..150 {
        server.create_by_hand(&format!("/tree/{n}"), "", CreateMode::Persistent).expect("created");
    }
    let other = server.client().await.expect("a client");
    let (one, two) = tokio::join!(client.delete_recursive("/tree"), other.delete_recursive("/tree"));
    assert_eq!((one, two), (Ok(()), Ok(())));
    assert!(server.paths().is_empty());
}

#[tokio::test(start_paused = true)]
async fn others_that_create_nodes_all_the_time_are_not_followed_without_end() {
    let (server, client) = tree(&["/tree", "/tree/a", "/tree/b", "/tree/b/c"]).await;
    let creator = server.client().await.expect("a client");
    let creating = tokio::spawn(async move {
        loop {
            let _ = creator.create("/tree/a/n-", "", CreateMode::PersistentSequential).await;
        }
    });
    let before = client.request_counts();
    let error = client.delete_recursive("/tree").await.expect_err("it is never empty");
    assert_eq!(error.kind(), ErrorKind::NotEmpty);
    assert!(
        error.to_string().starts_with("delete everything at /tree: other clients created nodes in /tree/a"),
        "{error}"
    );
    assert!((client.request_counts() - before).multis <= 40, "{:?}", client.request_counts() - before);
    assert!(!server.paths().contains(&"/tree/b".to_owned()), "what could be deleted is");
    creating.abort();
    client.delete_recursive("/tree").await.expect("deleted");
    assert!(server.paths().is_empty(), "{:?}", server.paths());
}
