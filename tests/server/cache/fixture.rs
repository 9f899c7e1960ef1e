//! Shared by the tests of the cache: trees that another client edits, and what a cache says of them.

use std::collections::BTreeMap;

use futures::FutureExt;
use tokio::task::coop::unconstrained;
use zookeeper_recipes::Client;
use zookeeper_recipes::cache::{Cache, CacheBuilder, Change, Changes, Node, Snapshot};

pub(crate) use crate::fixture::*;
use crate::support::{Observer, within};

pub(crate) type Bytes = Vec<u8>;
/// What is compared of a node: its data, and what names its version.
pub(crate) type Known = (Option<Bytes>, i64, i64, i32);
/// A tree by path.
pub(crate) type Tree = BTreeMap<String, Known>;

pub(crate) async fn start(builder: CacheBuilder) -> Cache<Bytes> {
    within("the first snapshot", SOON, builder.start()).await.expect("a cache")
}

pub(crate) async fn tree(client: &Client, path: &str) -> Cache<Bytes> {
    start(Cache::tree(client, path)).await
}

/// The latest snapshot that has everything that was answered to anyone before.
pub(crate) async fn synced(cache: &Cache<Bytes>) -> Snapshot<Bytes> {
    within("everything is in the cache", SOON, cache.synced()).await.expect("a snapshot")
}

/// A change in a word: `+` for added, `~` for changed, `-` for removed, and the path below `top`.
pub(crate) fn word(top: &str, change: &Change<Bytes>) -> String {
    let below = |node: &Node<Bytes>| node.path().strip_prefix(top).unwrap_or_else(|| panic!("{node:?}")).to_owned();
    match change {
        Change::Added(node) => format!("+{}", below(node)),
        Change::Updated { old, new } => {
            assert_eq!(old.path(), new.path());
            format!("~{}", below(new))
        }
        Change::Removed { old } => format!("-{}", below(old)),
        Change::Synced => "synced".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Every change that was answered to anyone before, as [words](word).
pub(crate) async fn told(cache: &Cache<Bytes>, changes: &mut Changes<Bytes>) -> Vec<String> {
    // What leads to a snapshot is in the stream when the snapshot is there.
    synced(cache).await;
    taken(changes).iter().map(|change| word(cache.path(), change)).collect()
}

/// All changes that are in the stream now.
pub(crate) fn taken(changes: &mut Changes<Bytes>) -> Vec<Change<Bytes>> {
    std::iter::from_fn(|| unconstrained(changes.next()).now_or_never().flatten()).collect()
}

/// The next change, which is expected to come.
pub(crate) async fn next(changes: &mut Changes<Bytes>) -> Change<Bytes> {
    within("a change", SOON, changes.next()).await.expect("the cache lives")
}

/// Takes changes until there is a [`Change::Synced`], and returns the [words](word) of all before it.
pub(crate) async fn until_synced(top: &str, changes: &mut Changes<Bytes>) -> Vec<String> {
    let mut words = Vec::new();
    loop {
        match next(changes).await {
            Change::Synced => return words,
            change => words.push(word(top, &change)),
        }
    }
}

pub(crate) fn paths(snapshot: &Snapshot<Bytes>) -> Vec<String> {
    snapshot.iter().map(|node| node.path().to_owned()).collect()
}

/// The data of a node as text; nothing if the node is not there.
pub(crate) fn text(snapshot: &Snapshot<Bytes>, path: &str) -> Option<String> {
    snapshot.get(path).map(|node| String::from_utf8_lossy(node.value().expect("data")).into_owned())
}

pub(crate) fn known(node: &Node<Bytes>) -> Known {
    let stat = node.stat();
    (node.value().cloned(), stat.czxid, stat.mzxid, stat.version)
}

pub(crate) fn contents(snapshot: &Snapshot<Bytes>) -> Tree {
    snapshot.iter().map(|node| (node.path().to_owned(), known(node))).collect()
}

/// What the server has at `top` and below, while it is not changed.
pub(crate) async fn on_server(observer: &Observer, top: &str) -> Tree {
    let (mut found, mut left) = (Tree::new(), vec![top.to_owned()]);
    while let Some(path) = left.pop() {
        if let Some((data, stat)) = observer.get(&path).await {
            left.extend(observer.children(&path).await.iter().map(|name| format!("{path}/{name}")));
            found.insert(path, (Some(data), stat.czxid, stat.mzxid, stat.version));
        }
    }
    found
}

/// Creates nodes below `top`, in this order.
pub(crate) async fn create(observer: &Observer, top: &str, nodes: &[(&str, &str)]) {
    for (below, data) in nodes {
        observer.create(&format!("{top}{below}"), data.as_bytes()).await;
    }
}

/// Deletes nodes below `top`, in this order.
pub(crate) async fn delete(observer: &Observer, top: &str, nodes: &[&str]) {
    for below in nodes {
        observer.delete(&format!("{top}{below}")).await;
    }
}
