//! The basic behaviour of a cache: what it contains, and what it reports.

use zookeeper_recipes::cache::{Cache, Content};

use super::fixture::{ROOT, contents, create, on_server, setup, tree, words};
use crate::fixture::{SOON, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_tree_is_the_node_and_everything_below_in_the_order_of_the_paths() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let now = cache.snapshot();
    assert_eq!(contents(&now), on_server(&server, ROOT));
    let paths: Vec<_> = now.iter().map(|node| node.path()).collect();
    let expected = ["", "/a", "/a/x", "/a/x/y", "/a-b", "/b"].map(|below| format!("{ROOT}{below}"));
    assert_eq!(paths, expected);
    assert_eq!(now.len(), 6);
    assert!(!now.is_empty() && now.is_settled());
    assert_eq!(now.root().map(|root| root.path()), Some(ROOT));
    let children: Vec<_> = now.children(ROOT).map(|node| node.name()).collect();
    assert_eq!(children, ["a", "a-b", "b"]);
    assert_eq!(now.get("/app/config/a/x").and_then(|node| node.value()), Some(&b"2".to_vec()));
    assert!(now.get("/app/other").is_none() && now.get("/app/config/none").is_none());
    assert_eq!(now.get(ROOT).map(|root| *root.stat()), server.stat(ROOT));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_that_node_alone() {
    let (server, client) = setup().await;
    let cache = Cache::node(&client, ROOT).start().await.expect("a cache");
    assert_eq!(cache.snapshot().iter().map(|node| node.path()).collect::<Vec<_>>(), [ROOT]);
    let mut changes = cache.changes();
    server.create_by_hand("/app/config/c", "", zookeeper_recipes::CreateMode::Persistent).expect("created");
    server.set_data_by_hand(ROOT, "new").expect("set");
    assert_eq!(words(&mut changes).await, [format!("~{ROOT}")]);
    assert_eq!(cache.snapshot().root().and_then(|root| root.value()), Some(&b"new".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn children_are_those_directly_below_without_the_node_itself() {
    let (server, client) = setup().await;
    let cache = Cache::children(&client, ROOT).start().await.expect("a cache");
    let names = |cache: &Cache<Vec<u8>>| -> Vec<String> {
        cache.snapshot().iter().map(|node| node.name().to_owned()).collect()
    };
    assert_eq!(names(&cache), ["a", "a-b", "b"]);
    assert_eq!(cache.snapshot().len(), 3);
    assert!(cache.snapshot().root().is_none());
    let mut changes = cache.changes();
    server.set_data_by_hand(ROOT, "new").expect("set");
    server.set_data_by_hand("/app/config/a/x", "new").expect("set");
    create(&server, &[("/app/config/c", "5")]);
    server.delete_by_hand("/app/config/b").expect("deleted");
    assert_eq!(words(&mut changes).await, ["-/app/config/b", "+/app/config/c"]);
    assert_eq!(names(&cache), ["a", "a-b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn every_change_is_reported_with_what_was_before() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let mut changes = cache.changes();
    create(&server, &[("/app/config/a/new", "6")]);
    assert_eq!(words(&mut changes).await, ["+/app/config/a/new"]);
    server.set_data_by_hand("/app/config/a", "7").expect("set");
    let change = within("a change", SOON, changes.next()).await.expect("a change");
    let zookeeper_recipes::cache::Change::Updated { old, new } = change else { panic!("{change:?}") };
    assert_eq!((old.value(), new.value()), (Some(&b"1".to_vec()), Some(&b"7".to_vec())));
    assert_eq!((old.stat().version, new.stat().version), (0, 1));
    server.delete_by_hand("/app/config/a/x/y").expect("deleted");
    assert_eq!(words(&mut changes).await, ["-/app/config/a/x/y"]);
    server.delete_by_hand("/app/config/b").expect("deleted");
    create(&server, &[("/app/config/b", "again")]);
    assert_eq!(words(&mut changes).await, ["-/app/config/b", "+/app/config/b"], "another node at the same path");
    assert_eq!(contents(&cache.snapshot()), on_server(&server, ROOT));
}

#[tokio::test(start_paused = true)]
async fn a_root_that_does_not_exist_is_an_empty_cache_that_fills() {
    let (server, client) = setup().await;
    let cache = Cache::tree(&client, "/later/deep").start().await.expect("a cache");
    assert!(cache.snapshot().is_empty() && cache.snapshot().root().is_none());
    let mut changes = cache.changes();
    for round in 0..3 {
        create(&server, &[("/later/deep", "root"), ("/later/deep/a", "1"), ("/later/deep/a/b", "2")]);
        assert_eq!(words(&mut changes).await, ["+/later/deep", "+/later/deep/a", "+/later/deep/a/b"], "{round}");
        for path in ["/later/deep/a/b", "/later/deep/a", "/later/deep"] {
            server.delete_by_hand(path).expect("deleted");
        }
        assert_eq!(words(&mut changes).await, ["-/later/deep/a/b", "-/later/deep/a", "-/later/deep"], "{round}");
        assert!(cache.snapshot().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_tree_and_a_namespace() {
    let (server, client) = setup().await;
    let all = Cache::tree(&client, "/").start().await.expect("a cache");
    for path in ["/", "/app", "/app/config/a/x/y", "/app/other"] {
        assert!(all.snapshot().get(path).is_some(), "{path}");
    }
    let inside =
        zookeeper_recipes::Client::builder_for_testing(&server).namespace("/app").connect().await.expect("a client");
    let cache = Cache::tree(&inside, "/config").start().await.expect("a cache");
    let mut changes = cache.changes();
    assert!(cache.snapshot().get("/config/a/x").is_some());
    create(&server, &[("/app/config/new", "")]);
    assert_eq!(words(&mut changes).await, ["+/config/new"]);
    let whole = Cache::tree(&inside, "/").depth(1).start().await.expect("a cache");
    assert_eq!(whole.snapshot().iter().map(|node| node.path()).collect::<Vec<_>>(), ["/", "/config", "/other"]);
}

#[tokio::test(start_paused = true)]
async fn depth_filter_and_no_data() {
    let (server, client) = setup().await;
    let shallow = Cache::tree(&client, ROOT).depth(1).start().await.expect("a cache");
    assert_eq!(shallow.snapshot().len(), 4);
    let filtered =
        Cache::tree(&client, ROOT).filter(|path| !path.ends_with("/x")).without_data().start().await.expect("a cache");
    let (mut of_shallow, mut of_filtered) = (shallow.changes(), filtered.changes());
    let paths: Vec<_> = filtered.snapshot().iter().map(|node| node.path().to_owned()).collect();
    assert_eq!(paths, ["", "/a", "/a-b", "/b"].map(|below| format!("{ROOT}{below}")));
    assert!(filtered.snapshot().iter().all(|node| matches!(node.content(), Content::NotRead)));
    create(&server, &[("/app/config/b/deep", ""), ("/app/config/a/x/z", "")]);
    server.set_data_by_hand("/app/config/b", "written").expect("set");
    assert_eq!(words(&mut of_shallow).await, ["~/app/config/b"]);
    let mut seen = words(&mut of_filtered).await;
    seen.sort_unstable();
    assert_eq!(seen, ["+/app/config/b/deep", "~/app/config/b"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_condition() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    within("it holds", SOON, cache.wait_for(|now| now.len() == 6)).await.expect("a snapshot");
    let mut waiting = Box::pin(cache.wait_for(|now| now.get("/app/config/ready").is_some()));
    still_pending("it does not exist", &mut waiting).await;
    create(&server, &[("/app/config/ready", "")]);
    let snapshot = within("it exists", SOON, waiting).await.expect("a snapshot");
    assert!(snapshot.get("/app/config/ready").is_some());
}

#[tokio::test(start_paused = true)]
async fn synced_has_every_write_that_was_answered_before() {
    let (_server, client) = setup().await;
    let other = _server.client().await.expect("a client");
    let cache = tree(&client).await;
    for number in 0..50 {
        other.set("/app/config/a", number.to_string(), None).await.expect("set");
        let now = within("synced", SOON, cache.synced()).await.expect("a snapshot");
        let value = now.get("/app/config/a").and_then(|node| node.value()).cloned();
        assert_eq!(value, Some(number.to_string().into_bytes()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_cache_leaves_no_watch_and_ends_its_streams() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let (clone, mut changes) = (cache.clone(), cache.changes());
    drop(cache);
    create(&server, &[("/app/config/c", "")]);
    assert_eq!(words(&mut changes).await, ["+/app/config/c"], "a clone is left");
    drop(clone);
    assert!(within("the end", SOON, changes.next()).await.is_none());
    server.until(|| server.watches() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_ends_the_cache_and_leaves_the_last_snapshot() {
    let (_server, client) = setup().await;
    let cache = tree(&client).await;
    let mut changes = cache.changes();
    let mut waiting = Box::pin(cache.wait_for(|_| false));
    still_pending("it never holds", &mut waiting).await;
    client.close().await.expect("closed");
    assert!(within("the end", SOON, changes.next()).await.is_none());
    let error = within("the end", SOON, waiting).await.expect_err("closed");
    assert_eq!(error.kind(), zookeeper_recipes::ErrorKind::Closed);
    assert_eq!(cache.synced().await.expect_err("closed").kind(), zookeeper_recipes::ErrorKind::Closed);
    assert_eq!(cache.snapshot().len(), 6);
    assert!(cache.changes().next().await.is_none());
}
