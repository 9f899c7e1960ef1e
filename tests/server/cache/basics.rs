//! What a cache contains and reports while nothing fails.

use zookeeper_recipes::cache::{Cache, Change, Content};

use super::fixture::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_comes_is_written_goes_and_comes_again() {
    let fixture = Fixture::new("node").await;
    let (observer, path) = (&fixture.observer, &fixture.path);
    let cache = start(Cache::node(&fixture.client().await, path)).await;
    let mut changes = cache.changes();
    assert!(cache.snapshot().root().is_none());
    observer.create(path, b"a").await;
    assert_eq!(told(&cache, &mut changes).await, ["+"]);
    assert_eq!(text(&cache.snapshot(), path).as_deref(), Some("a"));
    observer.set_data(path, b"b").await;
    // A child is none of its business.
    create(observer, path, &[("/child", "")]).await;
    delete(observer, path, &["/child"]).await;
    assert_eq!(told(&cache, &mut changes).await, ["~"]);
    assert_eq!(text(&cache.snapshot(), path).as_deref(), Some("b"));
    observer.delete(path).await;
    assert_eq!(told(&cache, &mut changes).await, ["-"]);
    assert!(cache.snapshot().is_empty());
    observer.create(path, b"c").await;
    assert_eq!(told(&cache, &mut changes).await, ["+"]);
    // With an equal version and equal data, but another node.
    observer.delete(path).await;
    observer.create(path, b"c").await;
    assert_eq!(told(&cache, &mut changes).await, ["-", "+"]);
    assert_eq!(contents(&cache.snapshot()), on_server(observer, path).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_follow_their_directory_also_when_it_is_deleted_and_created_again() {
    let fixture = Fixture::new("children").await;
    let (observer, path) = (&fixture.observer, &fixture.path);
    let cache = start(Cache::children(&fixture.client().await, path)).await;
    let mut changes = cache.changes();
    for round in 0..2 {
        create(observer, path, &[("", "dir"), ("/b", "1"), ("/a", "2"), ("/a/below", "")]).await;
        let mut all = told(&cache, &mut changes).await;
        all.sort();
        assert_eq!(all, ["+/a", "+/b"], "{round}");
        observer.set_data(path, b"not a child").await;
        observer.set_data(&format!("{path}/b"), b"3").await;
        assert_eq!(told(&cache, &mut changes).await, ["~/b"], "{round}");
        assert_eq!(paths(&cache.snapshot()), [format!("{path}/a"), format!("{path}/b")]);
        assert!(cache.snapshot().root().is_none());
        delete(observer, path, &["/a/below", "/a", "/b", ""]).await;
        let mut all = told(&cache, &mut changes).await;
        all.sort();
        assert_eq!(all, ["-/a", "-/b"], "{round}");
        assert!(cache.snapshot().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_that_is_there_and_one_whose_root_comes_later() {
    let fixture = Fixture::new("tree").await;
    let (observer, path) = (&fixture.observer, &fixture.path);
    let client = fixture.client().await;
    let deep = format!("{path}/x/y");
    let (all, later) = (tree(&client, path).await, tree(&client, &deep).await);
    let (mut of_all, mut of_later) = (all.changes(), later.changes());
    for round in 0..2 {
        create(observer, path, &[("", "0"), ("/a", "1"), ("/x", "2"), ("/x/y", "3"), ("/x/y/z", "4")]).await;
        let mut words = told(&all, &mut of_all).await;
        words.sort();
        assert_eq!(words, ["+", "+/a", "+/x", "+/x/y", "+/x/y/z"], "{round}");
        let mut words = told(&later, &mut of_later).await;
        words.sort();
        assert_eq!(words, ["+", "+/z"], "{round}");
        // One that starts now has the same.
        assert_eq!(contents(&tree(&client, path).await.snapshot()), contents(&all.snapshot()));
        assert_eq!(contents(&all.snapshot()), on_server(observer, path).await);
        assert_eq!(contents(&later.snapshot()), on_server(observer, &deep).await);
        delete(observer, path, &["/x/y/z", "/x/y", "/x", "/a", ""]).await;
        let mut words = told(&all, &mut of_all).await;
        words.sort();
        assert_eq!(words, ["-", "-/a", "-/x", "-/x/y", "-/x/y/z"], "{round}");
        assert_eq!(told(&later, &mut of_later).await.len(), 2, "{round}");
        assert!(all.snapshot().is_empty() && later.snapshot().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn depth_filter_no_data_and_a_namespace() {
    let fixture = Fixture::with_directory("scope").await;
    let (observer, path) = (&fixture.observer, &fixture.path);
    let client = fixture.client().await;
    create(observer, path, &[("/a", "1"), ("/a/b", "2"), ("/a/b/c", "3"), ("/private", "4"), ("/private/p", "5")])
        .await;
    let below = |names: &[&str]| -> Vec<String> { names.iter().map(|name| format!("{path}{name}")).collect() };
    let node = start(Cache::tree(&client, path).depth(0)).await;
    let one_level = start(Cache::tree(&client, path).depth(1)).await;
    let one_level_deeper = start(Cache::tree(&client, format!("{path}/a")).depth(1)).await;
    let public = Cache::tree(&client, path).filter(|path| !path.ends_with("/private")).without_data();
    let public = start(public).await;
    assert_eq!(paths(&node.snapshot()), below(&[""]));
    assert_eq!(paths(&one_level.snapshot()), below(&["", "/a", "/private"]));
    assert_eq!(paths(&one_level_deeper.snapshot()), below(&["/a", "/a/b"]));
    assert_eq!(paths(&public.snapshot()), below(&["", "/a", "/a/b", "/a/b/c"]));
    assert!(public.snapshot().iter().all(|node| matches!(node.content(), Content::NotRead)));

    let namespace = path.trim_start_matches('/');
    let builder = builder(&fixture.server.connect_string(), std::time::Duration::from_secs(10)).namespace(namespace);
    let inside = connect(builder).await;
    let named = tree(&inside, "/a").await;
    let whole = start(Cache::tree(&inside, "/").depth(1)).await;
    assert_eq!(paths(&named.snapshot()), ["/a", "/a/b", "/a/b/c"]);
    assert_eq!(paths(&whole.snapshot()), ["/", "/a", "/private"]);

    let all = [&node, &one_level, &one_level_deeper, &public, &named, &whole];
    let mut streams = all.map(Cache::changes);
    create(observer, path, &[("/a/b/new", ""), ("/private/new", ""), ("/new", "")]).await;
    observer.set_data(&format!("{path}/private"), b"6").await;
    observer.set_data(&format!("{path}/a/b"), b"7").await;
    let mut words = Vec::new();
    for (cache, stream) in all.iter().zip(&mut streams) {
        let mut told = told(cache, stream).await;
        told.sort();
        words.push(told.join(" "));
    }
    let expected = ["", "+/new ~/private", "~/b", "+/a/b/new +/new ~/a/b", "+/b/new ~/b", "+new ~private"];
    assert_eq!(words, expected);
    // A write is seen without its data, too.
    assert_eq!(public.snapshot().get(&format!("{path}/a/b")).map(|node| node.stat().version), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_caches_agree_and_synced_has_what_another_client_wrote() {
    let fixture = Fixture::with_directory("agree").await;
    let clients = [fixture.client().await, fixture.client().await];
    let caches = [tree(&clients[0], &fixture.path).await, tree(&clients[1], &fixture.path).await];
    let child = format!("{}/child", fixture.path);
    fixture.observer.create(&child, b"").await;
    for number in 0..30 {
        fixture.observer.set_data(&child, number.to_string().as_bytes()).await;
        let (one, other) = tokio::join!(synced(&caches[0]), synced(&caches[1]));
        assert_eq!(text(&one, &child), Some(number.to_string()));
        assert_eq!(contents(&one), contents(&other));
        assert!(one.is_settled() && one.is_fresh());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_cache_leaves_no_watch() {
    let fixture = Fixture::with_directory("dropped").await;
    let client = fixture.client().await;
    let cache = tree(&client, &fixture.path).await;
    let mut changes = cache.changes();
    assert_eq!(watches(&fixture, &client).await, 1);
    drop(cache);
    let end = crate::support::within("the end", SOON, changes.next()).await;
    assert!(end.is_none(), "{end:?}");
    nothing_is_left(&fixture, &client, 0, "a dropped cache").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_changes_of_a_node_carry_what_was_before() {
    let fixture = Fixture::with_directory("before").await;
    let cache = tree(&fixture.client().await, &fixture.path).await;
    let mut changes = cache.changes();
    fixture.observer.set_data(&fixture.path, b"new").await;
    match next(&mut changes).await {
        Change::Updated { old, new } => {
            assert_eq!((old.value(), new.value()), (Some(&b"".to_vec()), Some(&b"new".to_vec())));
            assert_eq!((old.stat().version, new.stat().version), (0, 1));
        }
        other => panic!("{other:?}"),
    }
}
