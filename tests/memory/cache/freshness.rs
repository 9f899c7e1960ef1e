//! How old a snapshot is.

use super::fixture::{create, setup, tree};
use crate::fixture::{SOON, T};

#[tokio::test(start_paused = true)]
async fn heartbeats_confirm_the_latest_snapshot() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let first = cache.snapshot();
    for _ in 0..100 {
        tokio::time::sleep(T / 20).await;
        let age = cache.snapshot().age();
        assert!(age <= T / 6 + SOON / 4 && cache.snapshot().is_fresh(), "{age:?}");
    }
    assert!(first.is_fresh(), "it is the latest still");
    create(&server, &[("/app/config/new", "")]);
    tokio::time::sleep(T).await;
    assert!(cache.snapshot().is_fresh());
    assert!(!first.is_fresh(), "there is a newer one");
    assert!(first.age() >= T / 2, "{:?}", first.age());
}

#[tokio::test(start_paused = true)]
async fn an_outage_makes_it_old_and_the_comparison_new() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    tokio::time::sleep(T).await;
    server.refuse(&client);
    server.disconnect(&client);
    tokio::time::sleep(T / 2).await;
    assert!(!cache.snapshot().is_fresh());
    assert!(cache.snapshot().age() >= T / 2);
    server.heal();
    tokio::time::sleep(T).await;
    assert!(cache.snapshot().is_fresh());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_an_answer_makes_it_old() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    server.black_hole(&client);
    tokio::time::sleep(T / 2).await;
    assert!(!cache.snapshot().is_fresh());
}

#[tokio::test(start_paused = true)]
async fn zxid_is_the_newest_transaction_seen() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let first = cache.snapshot().zxid();
    assert_eq!(
        first,
        ["", "/a", "/a/x", "/a/x/y", "/a-b", "/b"]
            .map(|below| {
                let stat = server.stat(&format!("/app/config{below}")).expect("it exists");
                stat.mzxid.max(stat.pzxid)
            })
            .into_iter()
            .max()
            .expect("some")
    );
    server.set_data_by_hand("/app/config/b", "new").expect("set");
    let now = cache.synced().await.expect("a snapshot");
    assert_eq!(Some(now.zxid()), server.stat("/app/config/b").map(|stat| stat.mzxid));
    assert!(now.zxid() > first);
}
