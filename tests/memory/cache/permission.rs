//! Nodes that may not be read.

use std::time::Duration;

use zookeeper_recipes::cache::{Cache, Content};

use super::fixture::{ROOT, create, setup, tree};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_read_is_there_and_denied() {
    let (server, client) = setup().await;
    server.deny("/app/config/a");
    let cache = tree(&client).await;
    let now = cache.snapshot();
    let denied = now.get("/app/config/a").expect("it exists");
    assert!(matches!(denied.content(), Content::Denied) && denied.value().is_none(), "{denied:?}");
    assert_eq!(now.unlistable().collect::<Vec<_>>(), ["/app/config/a"]);
    assert!(now.get("/app/config/a/x").is_none(), "it cannot be known");
    assert!(now.get("/app/config/b").is_some_and(|node| node.value().is_some()), "the others are as ever");
    assert!(cache.last_error().is_none(), "it is a state, not an error");
}

#[tokio::test(start_paused = true)]
async fn what_is_allowed_again_is_read_after_ten_minutes_or_a_reconnect() {
    for reconnects in [false, true] {
        let (server, client) = setup().await;
        server.deny("/app/config/a");
        let cache = tree(&client).await;
        tokio::time::sleep(T).await;
        server.allow("/app/config/a");
        if reconnects {
            server.disconnect(&client);
        } else {
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        tokio::time::sleep(T).await;
        let now = cache.snapshot();
        assert!(now.get("/app/config/a").is_some_and(|node| node.value().is_some()), "{reconnects}");
        assert!(now.get("/app/config/a/x/y").is_some(), "{reconnects}");
        assert_eq!(now.unlistable().count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_is_taken_away_shows_with_the_next_comparison() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    server.deny("/app/config/b");
    server.disconnect(&client);
    tokio::time::sleep(T).await;
    let now = within("synced", SOON, cache.synced()).await.expect("a snapshot");
    assert!(matches!(now.get("/app/config/b").expect("it exists").content(), Content::Denied));
}

#[tokio::test(start_paused = true)]
async fn a_denied_root_is_no_error() {
    let (server, client) = setup().await;
    server.deny(ROOT);
    let cache = tree(&client).await;
    assert!(matches!(cache.snapshot().root().expect("it exists").content(), Content::Denied));
    let children = Cache::children(&client, ROOT).start().await.expect("a cache");
    assert!(children.snapshot().is_empty());
    assert_eq!(children.snapshot().unlistable().collect::<Vec<_>>(), [ROOT]);
    server.allow(ROOT);
    create(&server, &[("/app/config/new", "")]);
    tokio::time::sleep(Duration::from_secs(610)).await;
    assert_eq!(children.snapshot().len(), 4);
    assert_eq!(cache.snapshot().len(), 7);
}
