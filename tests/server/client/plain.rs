//! Plain operations and transactions without faults.

use futures::StreamExt;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{Acl, CreateMode, ErrorKind, Permissions, TransactionResult, WatchEvent, WatchMode};

use super::fixture::{Fixture, SOON, builder};
use crate::support::{Observer, ZooKeeper, unique_path, within};

#[tokio::test]
async fn what_is_written_can_be_read() {
    let fixture = Fixture::new().await;
    let Fixture { client, .. } = &fixture;
    let path = unique_path("plain");
    assert_eq!(client.exists(&path).await.unwrap(), None);
    assert_eq!(client.create(&path, b"one", CreateMode::Persistent).await.unwrap(), path);
    let stat = client.set(&path, b"two", Some(0)).await.unwrap();
    assert_eq!((stat.version, stat.ephemeral_owner), (1, 0));
    assert_eq!(client.get(&path).await.unwrap(), (b"two".to_vec(), stat));
    let numbered = client.create(&format!("{path}/n-"), b"", CreateMode::EphemeralSequential).await.unwrap();
    assert_eq!(numbered, format!("{path}/n-0000000000"));
    assert_eq!(client.children(&path).await.unwrap(), ["n-0000000000"]);
    assert_eq!(Some(client.exists(&numbered).await.unwrap().unwrap().ephemeral_owner), client.session_id());

    let kind = |error: zookeeper_recipes::Error| error.kind();
    assert_eq!(kind(client.create(&path, b"", CreateMode::Persistent).await.unwrap_err()), ErrorKind::NodeExists);
    assert_eq!(kind(client.set(&path, b"", Some(7)).await.unwrap_err()), ErrorKind::BadVersion);
    assert_eq!(kind(client.delete(&path, None).await.unwrap_err()), ErrorKind::NotEmpty);
    client.delete(&numbered, None).await.unwrap();
    client.delete(&path, Some(1)).await.unwrap();
    assert_eq!(kind(client.get(&path).await.unwrap_err()), ErrorKind::NoNode);
    assert_eq!(kind(client.delete(&path, None).await.unwrap_err()), ErrorKind::NoNode);
}

#[tokio::test]
async fn the_acl_of_a_node_below_a_chroot_and_a_namespace() {
    let server = ZooKeeper::shared().await;
    let outside = Observer::connect(&server.connect_string()).await;
    let chroot = unique_path("acl");
    outside.create_all(&chroot).await;
    let hosts = format!("{}{chroot}", server.connect_string());
    let acl = [Acl::new(Permissions::ALL, "digest", "me:hash"), Acl::new(Permissions::READ, "world", "anyone")];
    let guarded = builder(&hosts).acls(acl).connect().await.unwrap();
    guarded.create("/app", b"", CreateMode::Persistent).await.unwrap();
    let hidden = ["digest:me:x:cdrwa", "world:anyone:r"];
    let shown = |acl: Vec<Acl>| acl.iter().map(Acl::to_string).collect::<Vec<_>>();
    assert_eq!(shown(guarded.acl("/app").await.unwrap()), hidden);
    assert_eq!(guarded.acl("/").await.unwrap(), [Acl::anyone_all()], "that of the chroot");
    let client = builder(&hosts).namespace("app").connect().await.unwrap();
    // A client looks once whether the chroot is there.
    client.exists("/").await.unwrap();
    let before = client.request_counts();
    assert_eq!(shown(client.acl("/").await.unwrap()), hidden);
    assert_eq!((client.request_counts() - before).reads, 1);
    assert_eq!(client.acl("/app").await.unwrap_err().kind(), ErrorKind::NoNode);
}

#[tokio::test]
async fn a_namespace_is_put_before_every_path_and_taken_from_every_answer() {
    let server = ZooKeeper::shared().await;
    let outside = Observer::connect(&server.connect_string()).await;
    let namespace = unique_path("namespace");
    let client = builder(&server.connect_string()).namespace(&namespace).connect().await.unwrap();
    client.create_containers("/a/b").await.unwrap();
    client.create_containers("/a/b").await.unwrap();
    let path = client.create("/a/b/c-", b"", CreateMode::EphemeralSequential).await.unwrap();
    assert_eq!(path, "/a/b/c-0000000000");
    assert!(outside.exists(&format!("{namespace}{path}")).await);
    let results = client.transaction().create("/a/d", b"", CreateMode::Ephemeral).commit().await.unwrap();
    assert_eq!(results, [TransactionResult::Created { path: "/a/d".into() }]);
    client.close().await.unwrap();
    outside.wait_until_gone(&format!("{namespace}/a/d")).await;
}

#[tokio::test]
async fn a_transaction_happens_as_a_whole_or_not_at_all() {
    let fixture = Fixture::new().await;
    let Fixture { client, .. } = &fixture;
    let (a, b) = (unique_path("a"), unique_path("b"));
    client.create(&a, b"0", CreateMode::Persistent).await.unwrap();
    let error = client
        .transaction()
        .set_data(&a, b"1", Some(0))
        .create(&b, b"", CreateMode::Persistent)
        .check_version(&a, 9)
        .commit()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadVersion);
    assert!(error.to_string().contains("nothing was changed; step 3 of 3, check"), "{error}");
    assert_eq!(client.get(&a).await.unwrap().0, b"0");
    assert_eq!(client.exists(&b).await.unwrap(), None);

    let results =
        client.transaction().set_data(&a, b"1", Some(0)).check_version(&a, 1).delete(&a, None).commit().await.unwrap();
    assert!(matches!(
        results[..],
        [TransactionResult::DataSet { .. }, TransactionResult::Checked, TransactionResult::Deleted]
    ));
}

#[tokio::test]
async fn many_nodes_are_read_in_few_requests() {
    let fixture = Fixture::new().await;
    let Fixture { client, .. } = &fixture;
    let dir = unique_path("many");
    let mut create = client.transaction();
    let paths: Vec<_> = (0..40).map(|number| format!("{dir}/{number}")).collect();
    for path in &paths {
        create = create.create(path, path.as_bytes(), CreateMode::Persistent);
    }
    create.create_parents().commit().await.unwrap();
    let none = format!("{dir}/none");
    let before = client.request_counts();
    let read = client.multi_get(paths.iter().chain([&none, &paths[0]])).await.unwrap();
    let each = paths[0].len() as u64 + 1;
    assert!((client.request_counts() - before).reads <= 42 / (400 / each).min(16) + 1);
    let data: Vec<_> = read.iter().map(|read| read.as_ref().map(|(data, _)| data.as_slice())).collect();
    assert!(data[..40].iter().zip(&paths).all(|(data, path)| *data == Ok(path.as_bytes())), "{data:?}");
    assert_eq!(data[40].unwrap_err().kind(), ErrorKind::NoNode);
    assert_eq!(data[41], Ok(paths[0].as_bytes()));
    client.delete_recursive(&dir).await.unwrap();
}

#[tokio::test]
async fn missing_nodes_above_are_created_together_with_the_others_or_not_at_all() {
    let fixture = Fixture::new().await;
    let Fixture { client, server, .. } = &fixture;
    let top = unique_path("above");
    let node = format!("{top}/a/b");
    let create = || client.transaction().create(&node, b"1", CreateMode::Persistent).create_parents();
    let error = create().check_version("/zookeeper", 1_000_000).commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadVersion);
    assert!(error.to_string().contains("step 2 of 2, check"), "{error}");
    assert_eq!(client.exists(&top).await.unwrap(), None);
    let results = create().commit().await.unwrap();
    assert_eq!(results, [TransactionResult::Created { path: node.clone() }]);
    let (above, stat) = (client.exists(&top).await.unwrap().unwrap(), client.exists(&node).await.unwrap().unwrap());
    assert_eq!(above.czxid, stat.czxid, "one transaction");
    let error = create().commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NodeExists);

    // Many at once, below directories that none of them has created yet.
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(builder(&server.connect_string()).connect().await.unwrap());
    }
    for round in 0..10 {
        let create = |(number, client): (usize, &zookeeper_recipes::Client)| {
            let path = format!("{top}/{round}/x/y/{number}");
            client.transaction().create(&path, b"", CreateMode::Ephemeral).create_parents().commit()
        };
        for outcome in futures::future::join_all(clients.iter().enumerate().map(create)).await {
            outcome.unwrap();
        }
    }
    let root = builder(&format!("{}{top}/missing", server.connect_string())).connect().await.unwrap();
    let create = root.transaction().create("/a/b", b"", CreateMode::Persistent).create_parents();
    let error = create.commit().await.unwrap_err();
    assert!(error.kind() == ErrorKind::NoNode && error.to_string().contains("the root"), "{error}");
    let error = root.multi_get(["/a", "/b"]).await.unwrap().remove(1).unwrap_err();
    assert!(error.kind() == ErrorKind::NoNode && error.to_string().contains("the root"), "{error}");
    client.delete_recursive(&top).await.unwrap();
}

#[tokio::test]
async fn a_fence_is_valid_while_its_leader_leads_and_only_for_its_own_client() {
    let fixture = Fixture::new().await;
    let Fixture { client, outside, server, .. } = &fixture;
    let (election, data) = (unique_path("election"), unique_path("data"));
    client.create(&data, b"", CreateMode::Persistent).await.unwrap();
    let latch = LeaderLatch::builder(client, &election).start().unwrap();
    let leadership = within("leadership", SOON, latch.wait_for_leadership()).await.unwrap();
    let fence = leadership.fence();
    let results = client.transaction().check(&fence).set_data(&data, b"by the leader", None).commit().await.unwrap();
    assert_eq!(results.len(), 1, "a fence has no result of its own");

    let stranger = builder(&server.connect_string()).connect().await.unwrap();
    let error = stranger.transaction().check(&fence).delete(&data, None).commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);

    outside.delete(fence.path()).await;
    let error = client.transaction().check(&fence).set_data(&data, b"too late", None).commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(error.is_lost());
    assert_eq!(outside.data(&data).await.unwrap(), b"by the leader");
}

#[tokio::test]
async fn a_fence_of_a_lost_session_is_never_sent_on_the_next_one() {
    let fixture = Fixture::new().await;
    let Fixture { client, outside, proxy, .. } = &fixture;
    let (election, data) = (unique_path("election"), unique_path("data"));
    client.create(&data, b"before", CreateMode::Persistent).await.unwrap();
    let latch = LeaderLatch::builder(client, &election).start().unwrap();
    let leadership = within("leadership", SOON, latch.wait_for_leadership()).await.unwrap();
    let old_session = client.session_id();
    proxy.kill_session().await;
    within("the loss is told", SOON, leadership.lost()).await;
    within("leadership in the next session", SOON, latch.wait_for_leadership()).await.unwrap();
    assert_ne!(client.session_id(), old_session);
    let fenced = client.transaction().check(&leadership.fence()).set_data(&data, b"after", None);
    assert_eq!(fenced.commit().await.unwrap_err().kind(), ErrorKind::SessionLost);
    client.set(&data, b"unfenced", None).await.unwrap();
    assert_eq!(outside.data(&data).await.unwrap(), b"unfenced");
}

#[tokio::test]
async fn a_watch_lasts_over_a_reconnect_and_the_end_of_the_session() {
    let fixture = Fixture::new().await;
    let Fixture { client, outside, proxy, .. } = &fixture;
    let path = unique_path("watch");
    let child = format!("{path}/child");
    let mut node = client.watch(&path, WatchMode::Persistent).unwrap();
    let mut tree = client.watch(&path, WatchMode::PersistentRecursive).unwrap();
    let (mut path_of_node, mut path_of_tree) = (Vec::new(), Vec::new());
    for round in ["at first", "after a reconnect", "in another session"] {
        assert_eq!(within(round, SOON, node.next()).await.unwrap(), Ok(WatchEvent::ReadAgain));
        assert_eq!(within(round, SOON, tree.next()).await.unwrap(), Ok(WatchEvent::ReadAgain));
        outside.create(&path, b"").await;
        outside.create(&child, b"").await;
        outside.delete(&child).await;
        outside.delete(&path).await;
        for _ in 0..4 {
            path_of_node.push(within(round, SOON, node.next()).await.unwrap().unwrap());
            path_of_tree.push(within(round, SOON, tree.next()).await.unwrap().unwrap());
        }
        match round {
            "at first" => proxy.reset_once().await,
            "after a reconnect" => proxy.kill_session().await,
            _ => {}
        }
    }
    let created = |path: &String| WatchEvent::Created { path: path.clone() };
    let deleted = |path: &String| WatchEvent::Deleted { path: path.clone() };
    let children = || WatchEvent::ChildrenChanged { path: path.clone() };
    let of_node = [created(&path), children(), children(), deleted(&path)];
    let of_tree = [created(&path), created(&child), deleted(&child), deleted(&path)];
    assert_eq!((path_of_node, path_of_tree), ([&of_node[..]; 3].concat(), [&of_tree[..]; 3].concat()));
}

#[tokio::test]
async fn a_large_tree_is_deleted_in_transactions_that_the_server_takes() {
    let fixture = Fixture::new().await;
    let Fixture { client, outside, .. } = &fixture;
    let path = unique_path("tree");
    client.create_containers(&format!("{path}/a/b")).await.unwrap();
    let long = "x".repeat(3_000);
    let names = (0..300).map(|n| format!("n{n}")).chain((0..40).map(|n| format!("{long}{n}")));
    let mut creating = client.transaction();
    for name in names {
        creating = creating.create(&format!("{path}/a/b/{name}"), b"".to_vec(), CreateMode::Persistent);
    }
    creating.commit().await.unwrap();
    let before = client.request_counts();
    client.delete_recursive(&path).await.unwrap();
    let spent = client.request_counts() - before;
    assert!(!outside.exists(&path).await);
    assert!(spent.lists == 343 && (9..=14).contains(&spent.multis), "{spent}");
    assert_eq!(client.delete_recursive(&path).await.unwrap_err().kind(), ErrorKind::NoNode);
}
