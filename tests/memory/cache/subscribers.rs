//! Subscribers that are too slow, or come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use zookeeper_recipes::cache::{BoxError, Cache, Change, Serializer, Snapshot};

use super::fixture::{ROOT, setup, words};
use crate::fixture::{SOON, within};

/// What identifies the content of each node.
fn versions(snapshot: &Snapshot<Vec<u8>>) -> BTreeMap<String, (i64, i64)> {
    snapshot.iter().map(|node| (node.path().to_owned(), (node.stat().czxid, node.stat().mzxid))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_lags_is_told_and_continues_from_a_snapshot() {
    let (server, client) = setup().await;
    let cache = Cache::tree(&client, ROOT).capacity(4).start().await.expect("a cache");
    let mut changes = cache.changes();
    let mut copy = versions(changes.start());
    for number in 0..20 {
        server.set_data_by_hand("/app/config/a", number.to_string()).expect("set");
        cache.synced().await.expect("a snapshot");
    }
    let mut lagged = 0;
    while let Ok(Some(change)) = tokio::time::timeout(SOON, changes.next()).await {
        match change {
            Change::Lagged(snapshot) => {
                copy = versions(&snapshot);
                lagged += 1;
            }
            Change::Updated { old, new } => {
                let before = copy.insert(new.path().to_owned(), (new.stat().czxid, new.stat().mzxid));
                assert_eq!(before, Some((old.stat().czxid, old.stat().mzxid)), "it follows");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(lagged, 1);
    assert_eq!(copy, versions(&cache.snapshot()));
}

#[tokio::test(start_paused = true)]
async fn each_subscriber_sees_everything_from_its_start_on() {
    let (server, client) = setup().await;
    let cache = Cache::tree(&client, ROOT).start().await.expect("a cache");
    let mut first = cache.changes();
    server.set_data_by_hand("/app/config/a", "one").expect("set");
    cache.synced().await.expect("a snapshot");
    let mut second = cache.changes();
    assert_eq!(second.start().get("/app/config/a").and_then(|node| node.value()), Some(&b"one".to_vec()));
    server.set_data_by_hand("/app/config/b", "two").expect("set");
    assert_eq!(words(&mut first).await, ["~/app/config/a", "~/app/config/b"]);
    drop(first);
    assert_eq!(words(&mut second).await, ["~/app/config/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_not_awaited_to_the_end_is_not_lost() {
    let (server, client) = setup().await;
    let cache = Cache::tree(&client, ROOT).start().await.expect("a cache");
    let mut changes = cache.changes();
    for _ in 0..3 {
        assert!(crate::fixture::polled(1, changes.next()).await.is_none());
    }
    server.set_data_by_hand("/app/config/a", "one").expect("set");
    let change = within("a change", SOON, changes.next()).await;
    assert!(matches!(change, Some(Change::Updated { .. })), "{change:?}");
}

/// Decodes data of any size to something that counts how much of it is left.
#[derive(Debug)]
struct Counted(Arc<()>);

impl Serializer for Counted {
    type Item = Arc<()>;

    fn serialize(&self, _: &Arc<()>) -> Result<Vec<u8>, BoxError> {
        Err("only read".into())
    }

    fn deserialize(&self, _: &[u8]) -> Result<Arc<()>, BoxError> {
        Ok(Arc::clone(&self.0))
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_does_not_read_keeps_a_limited_number_of_bytes() {
    let (server, client) = setup().await;
    let counted = Arc::new(());
    let decode = Counted(Arc::clone(&counted));
    let cache = Cache::tree(&client, ROOT).decode(decode).start().await.expect("a cache");
    let (mut slow, mut quick) = (cache.changes(), cache.changes());
    let before = Arc::strong_count(&counted);
    // 64 MiB: each change has the data of before and after.
    let (kept, data) = (8, vec![b'x'; 4 << 20]);
    for _ in 0..30 {
        server.set_data_by_hand("/app/config/a", &data).expect("set");
        cache.synced().await.expect("a snapshot");
        let change = within("a change", SOON, quick.next()).await;
        assert!(matches!(change, Some(Change::Updated { .. })), "who reads does not lag: {change:?}");
    }
    let left = Arc::strong_count(&counted) - before;
    assert!((kept - 1..=kept + 1).contains(&left), "{left} versions");
    let change = within("a change", SOON, slow.next()).await;
    assert!(matches!(change, Some(Change::Lagged(_))), "{change:?}");
    let mut last = None;
    while let Ok(Some(change)) = tokio::time::timeout(SOON, slow.next()).await {
        last = Some(change);
    }
    let Some(Change::Updated { new, .. }) = last else { panic!("{last:?}") };
    assert_eq!(Some(new.stat()), server.stat("/app/config/a").as_ref());
    let left = Arc::strong_count(&counted) - before;
    assert!(left <= 3, "no more than this test has: {left}");
}
