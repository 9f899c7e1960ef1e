//! Cache: starting, waiting for a snapshot, and following the changes.

use zookeeper_recipes::cache::{Cache, Change};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::harness::{Run, cases};

cases! {
    start: "CacheBuilder::start", at least 100 drops, 50 faults;
    synced: "Cache::synced", at least 20 drops, 10 faults;
    wait_for: "Cache::wait_for", at least 20 drops, 10 faults;
    next: "Changes::next", at least 20 drops, 10 faults;
}

const ROOT: &str = "/tree";

fn tree(run: &mut Run) {
    for path in [ROOT, "/tree/a", "/tree/a/x", "/tree/b"] {
        run.directory(path);
    }
    run.may_stay("/tree/new");
}

async fn started(client: &Client) -> Cache<Vec<u8>> {
    Cache::tree(client, ROOT).start().await.expect("a cache")
}

fn write(server: &TestingServer) {
    server.create_by_hand("/tree/new", "", CreateMode::Persistent).expect("a new node");
}

/// Checks that the cache still follows changes, and leaves nothing when it is dropped.
async fn works(run: &Run, cache: Cache<Vec<u8>>) {
    run.server().set_data_by_hand("/tree/b", "written").expect("it is there");
    let now = cache.synced().await.expect("a snapshot");
    let value = now.get("/tree/b").and_then(|node| node.value()).map(Vec::as_slice);
    assert_eq!(value, Some(&b"written"[..]));
    drop(cache);
    run.only_watches_of_others_are_left(0).await;
}

async fn start(run: &mut Run) {
    tree(run);
    let client = run.client().await;
    if let Some(cache) = run.cut(Cache::tree(&client, ROOT).start()).await.done() {
        assert_eq!(cache.expect("a cache").snapshot().len(), 4);
    }
    run.only_watches_of_others_are_left(0).await;
    run.is_silent_if_calm().await;
    works(run, started(&client).await).await;
}

async fn synced(run: &mut Run) {
    tree(run);
    let client = run.client().await;
    let cache = started(&client).await;
    write(run.server());
    if let Some(snapshot) = run.cut(cache.synced()).await.done() {
        assert!(snapshot.expect("a snapshot").get("/tree/new").is_some());
    }
    works(run, cache).await;
}

async fn wait_for(run: &mut Run) {
    tree(run);
    let client = run.client().await;
    let cache = started(&client).await;
    write(run.server());
    if let Some(snapshot) = run.cut(cache.wait_for(|now| now.get("/tree/new").is_some())).await.done() {
        assert_eq!(snapshot.expect("a snapshot").len(), 5);
    }
    works(run, cache).await;
}

/// A change is returned once, by the dropped call or the next one, and none is returned after the end.
async fn next(run: &mut Run) {
    tree(run);
    let client = run.client().await;
    let cache = started(&client).await;
    let mut changes = cache.changes();
    write(run.server());
    run.server().delete_by_hand("/tree/a/x").expect("it is there");
    let mut seen: Vec<Change<Vec<u8>>> = run.cut(changes.next()).await.done().into_iter().flatten().collect();
    works(run, cache).await;
    while let Some(change) = changes.next().await {
        seen.push(change);
    }
    assert!(changes.next().await.is_none(), "it has ended");
    let paths =
        |wanted: fn(&Change<Vec<u8>>) -> Option<String>| -> Vec<String> { seen.iter().filter_map(wanted).collect() };
    let added = paths(|change| if let Change::Added(node) = change { Some(node.path().to_owned()) } else { None });
    let removed = paths(|change| if let Change::Removed { old } = change { Some(old.path().to_owned()) } else { None });
    assert_eq!((added, removed), (vec!["/tree/new".to_owned()], vec!["/tree/a/x".to_owned()]));
}
