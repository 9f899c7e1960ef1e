//! A cache follows what kazoo creates, writes and deletes.

use futures::StreamExt;
use zookeeper_recipes::cache::{Cache, Change};

use super::PATIENCE;
use super::kazoo::Kazoo;
use crate::fixture::Fixture;
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_follows_what_kazoo_writes() {
    let fixture = Fixture::with_directory("kazoo-edits").await;
    let (observer, path) = (&fixture.observer, &fixture.path);
    let client = fixture.client().await;
    let cache = Cache::tree(&client, path).start().await.expect("a cache");
    let changes = cache.changes();
    within("kazoo makes its edits", PATIENCE, Kazoo::edit(&fixture.server.connect_string(), path).ends()).await;
    let now = within("all is in the cache", PATIENCE, cache.synced()).await.expect("a snapshot");

    let mut expected = vec![(path.clone(), "Größe".as_bytes().to_vec())];
    for dir in 0..3 {
        expected.push((format!("{path}/dir-{dir}"), Vec::new()));
        for number in (dir..20).step_by(4).filter(|number| *number != 4) {
            let data = if number % 2 == 0 { "even".to_owned() } else { number.to_string() };
            let data = if number == 0 { "2".to_owned() } else { data };
            expected.push((format!("{path}/dir-{dir}/node-{number}"), data.into_bytes()));
        }
    }
    expected.push((format!("{path}/dir-3"), b"again".to_vec()));
    expected.push((format!("{path}/both"), b"1".to_vec()));
    let line = observer.children(path).await.into_iter().find(|name| name.starts_with("line-")).expect("its node");
    expected.push((format!("{path}/{line}"), Vec::new()));
    expected.sort();
    let mut found: Vec<_> =
        now.iter().map(|node| (node.path().to_owned(), node.value().expect("data").clone())).collect();
    found.sort();
    assert_eq!(found, expected);

    // A copy that applies the changes gets there, too.
    drop(cache);
    let all: Vec<Change<Vec<u8>>> = within("the stream ends", PATIENCE, changes.collect()).await;
    let (mut added, mut removed) = (0, 0);
    for change in &all {
        match change {
            Change::Added(_) => added += 1,
            Change::Removed { .. } => removed += 1,
            Change::Updated { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(1 + added - removed, expected.len(), "{all:?}");
}
