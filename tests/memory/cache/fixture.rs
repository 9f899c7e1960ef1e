//! Shared by the tests of the cache: a server with a tree, clients, and what a cache should contain.

use std::collections::BTreeMap;

use zookeeper_recipes::cache::{Cache, Change, Changes, Snapshot};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::{SOON, within};

pub(crate) const ROOT: &str = "/app/config";

/// Creates nodes, and what is missing above them.
pub(crate) fn create(server: &TestingServer, nodes: &[(&str, &str)]) {
    for (path, data) in nodes {
        for (end, _) in path.match_indices('/').skip(1) {
            if server.stat(&path[..end]).is_none() {
                server.create_by_hand(&path[..end], "", CreateMode::Persistent).expect("a new node");
            }
        }
        server.create_by_hand(path, data, CreateMode::Persistent).expect("a new node");
    }
}

/// A small tree below [`ROOT`].
pub(crate) fn grow(server: &TestingServer) {
    create(
        server,
        &[
            (ROOT, "root"),
            ("/app/config/a", "1"),
            ("/app/config/a/x", "2"),
            ("/app/config/a/x/y", "3"),
            ("/app/config/a-b", "4"),
            ("/app/config/b", ""),
            ("/app/other", "not in it"),
        ],
    );
}

/// A server with the tree, and a client.
pub(crate) async fn setup() -> (TestingServer, Client) {
    let server = TestingServer::start();
    grow(&server);
    let client = server.client().await.expect("a client");
    (server, client)
}

pub(crate) async fn tree(client: &Client) -> Cache<Vec<u8>> {
    within("the first snapshot", SOON, Cache::tree(client, ROOT).start()).await.expect("a cache")
}

/// What a snapshot contains: data by path.
pub(crate) fn contents(snapshot: &Snapshot<Vec<u8>>) -> BTreeMap<String, String> {
    let node = |value: &Vec<u8>| String::from_utf8_lossy(value).into_owned();
    snapshot.iter().map(|found| (found.path().to_owned(), found.value().map_or("?".into(), node))).collect()
}

/// What the server has at `top` and below.
pub(crate) fn on_server(server: &TestingServer, top: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        if let Some(data) = server.get(&path) {
            left.extend(server.children(&path).iter().map(|name| format!("{path}/{name}")));
            found.insert(path, String::from_utf8_lossy(&data).into_owned());
        }
    }
    found
}

/// A change in a word: `+` for added, `~` for changed, `-` for removed, and the path.
pub(crate) fn word(change: &Change<Vec<u8>>) -> String {
    match change {
        Change::Added(node) => format!("+{}", node.path()),
        Change::Updated { old, new } => {
            assert_eq!(old.path(), new.path());
            format!("~{}", new.path())
        }
        Change::Removed { old } => format!("-{}", old.path()),
        Change::Synced => "synced".to_owned(),
        Change::Lagged(_) => "lagged".to_owned(),
        Change::Failed(error) => format!("failed: {error}"),
        other => format!("{other:?}"),
    }
}

/// The next changes, as [words](word), until there are no more.
pub(crate) async fn words(changes: &mut Changes<Vec<u8>>) -> Vec<String> {
    let mut words = Vec::new();
    while let Ok(Some(change)) = tokio::time::timeout(SOON, changes.next()).await {
        words.push(word(&change));
    }
    words
}
