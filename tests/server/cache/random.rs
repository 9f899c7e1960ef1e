//! Random edits by several clients while connections and sessions end. When they are over, the cache has what the
//! server has, and so has a copy that applied the changes one by one.

use std::time::Duration;

use futures::future::join_all;
use zookeeper::Error;
use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::cache::{Cache, Change, Changes};

use super::fixture::*;
use crate::support::{Observer, within};

const EDITORS: u64 = 4;
const EDITS: usize = 400;

/// One client edits nodes of a few names, three levels deep.
async fn edit(connect_string: String, top: String, seed: u64) {
    use zookeeper::{Acls, CreateMode};
    let observer = Observer::connect(&connect_string).await;
    let client = observer.client();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let mut random = fastrand::Rng::with_seed(seed);
    for number in 0..EDITS {
        let depth = random.usize(0..=3);
        let path = (0..depth).fold(top.clone(), |path, _| format!("{path}/{}", random.char('a'..='d')));
        let data = number.to_string();
        let done = match random.u8(0..10) {
            0..4 => client.create(&path, data.as_bytes(), &options).await.map(drop),
            4..8 => client.set_data(&path, data.as_bytes(), None).await.map(drop),
            _ => client.delete(&path, None).await,
        };
        match done {
            Ok(()) | Err(Error::NoNode | Error::NodeExists | Error::NotEmpty) => {}
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

/// Applies changes to what was there.
fn apply(to: &mut Tree, change: Change<Bytes>, context: &str) {
    match change {
        Change::Added(node) => {
            let before = to.insert(node.path().to_owned(), known(&node));
            assert!(before.is_none(), "{context}: {node:?} was there");
        }
        Change::Updated { old, new } => {
            let before = to.insert(new.path().to_owned(), known(&new));
            assert_eq!(before, Some(known(&old)), "{context}: {new:?}");
        }
        Change::Removed { old } => {
            let before = to.remove(old.path());
            assert_eq!(before, Some(known(&old)), "{context}");
        }
        Change::Synced => {}
        other => panic!("{context}: {other:?}"),
    }
}

/// Applies all changes as they come, until the cache has ended.
async fn applied(mut changes: Changes<Bytes>, context: String) -> Tree {
    let mut tree = contents(changes.start());
    while let Some(change) = changes.next().await {
        apply(&mut tree, change, &context);
    }
    tree
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_edits_end_with_what_the_server_has() {
    let seed = std::env::var("SEED").ok().map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("SEED={seed}");
    let fixture = Fixture::with_directory("random").await;
    let connect_string = fixture.server.connect_string();
    let (quiet, faulty, restarted) = tokio::join!(
        fixture.client(),
        fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard),
        fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard),
    );
    let editors = join_all(
        (0..EDITORS)
            .map(|number| tokio::spawn(edit(connect_string.clone(), fixture.path.clone(), seed.wrapping_add(number)))),
    );
    // They start while the tree is edited.
    let clients = [&quiet, &faulty.1, &restarted.1];
    let caches = join_all(clients.map(|client| tree(client, &fixture.path))).await;
    let subscribers: Vec<_> = caches
        .iter()
        .enumerate()
        .map(|(number, cache)| tokio::spawn(applied(cache.changes(), format!("SEED={seed}, cache {number}"))))
        .collect();
    let mut editors = std::pin::pin!(within("all edits are made", SOON * 3, editors));
    let mut cuts = 0;
    // At many points of the comparisons that follow from it.
    let edited = loop {
        match tokio::time::timeout(Duration::from_millis(20), editors.as_mut()).await {
            Ok(edited) => break edited,
            Err(_) => {
                cuts += 1;
                faulty.0.cut().await;
                if cuts % 10 == 5 {
                    restarted.0.kill_session().await;
                    restarted.0.cut().await;
                }
            }
        }
    };
    edited.into_iter().for_each(|edited| edited.expect("no panic"));
    assert!(cuts > 0, "the connections were cut while it was edited");

    let expected = on_server(&fixture.observer, &fixture.path).await;
    for (number, cache) in caches.iter().enumerate() {
        let now = synced(cache).await;
        assert_eq!(contents(&now), expected, "SEED={seed}, cache {number}");
        assert!(now.is_settled());
    }
    // A cache that starts now has no other idea of it.
    assert_eq!(contents(&tree(&quiet, &fixture.path).await.snapshot()), expected);
    let lens: Vec<usize> = caches.iter().map(|cache: &Cache<Bytes>| cache.snapshot().len()).collect();
    assert_eq!(lens, vec![expected.len(); 3]);
    drop(caches);
    for (number, subscriber) in subscribers.into_iter().enumerate() {
        let tree = within("the stream ends", SOON, subscriber).await.expect("no panic");
        assert_eq!(tree, expected, "SEED={seed}, what was applied for cache {number}");
    }
}
