//! Servers that know no persistent watches behave the same.

use zookeeper_recipes::Client;
use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{ROOT, contents, create, grow, on_server, tree, words};
use crate::fixture::{SOON, T, within};

async fn setup() -> (TestingServer, Client) {
    let server = TestingServer::builder().persistent_watches(false).start();
    grow(&server);
    let client = server.client().await.expect("a client");
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn every_change_is_seen_again_and_again() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    assert_eq!(contents(&cache.snapshot()), on_server(&server, ROOT));
    let mut changes = cache.changes();
    for _ in 0..3 {
        create(&server, &[("/app/config/a/new", "6")]);
        assert_eq!(words(&mut changes).await, ["+/app/config/a/new"]);
        server.set_data_by_hand("/app/config/a", "7").expect("set");
        assert_eq!(words(&mut changes).await, ["~/app/config/a"]);
        create(&server, &[("/app/config/a/new/deep", "8")]);
        assert_eq!(words(&mut changes).await, ["+/app/config/a/new/deep"]);
        server.delete_by_hand("/app/config/a/new/deep").expect("deleted");
        server.delete_by_hand("/app/config/a/new").expect("deleted");
        assert_eq!(words(&mut changes).await, ["-/app/config/a/new/deep", "-/app/config/a/new"]);
        server.delete_by_hand("/app/config/b").expect("deleted");
        create(&server, &[("/app/config/b", "again")]);
        assert_eq!(words(&mut changes).await, ["-/app/config/b", "+/app/config/b"]);
        assert_eq!(contents(&cache.snapshot()), on_server(&server, ROOT));
    }
}

#[tokio::test(start_paused = true)]
async fn a_root_that_comes_and_goes() {
    let (server, client) = setup().await;
    let cache = Cache::tree(&client, "/later").start().await.expect("a cache");
    assert!(cache.snapshot().is_empty());
    let mut changes = cache.changes();
    for _ in 0..3 {
        create(&server, &[("/later", "root"), ("/later/a", "1")]);
        assert_eq!(words(&mut changes).await, ["+/later", "+/later/a"]);
        server.delete_by_hand("/later/a").expect("deleted");
        server.delete_by_hand("/later").expect("deleted");
        assert_eq!(words(&mut changes).await, ["-/later/a", "-/later"]);
    }
}

#[tokio::test(start_paused = true)]
async fn outages_and_new_sessions() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let mut changes = cache.changes();
    for expires in [false, true, false] {
        server.refuse(&client);
        if expires {
            server.expire_session(&client);
        }
        server.disconnect(&client);
        server.set_data_by_hand("/app/config/a", "edited").expect("set");
        server.delete_by_hand("/app/config/b").expect("deleted");
        create(&server, &[("/app/config/b", "")]);
        server.heal();
        tokio::time::sleep(T * 2).await;
        let words = words(&mut changes).await;
        assert_eq!(words, ["-/app/config/b", "~/app/config/a", "+/app/config/b", "synced"], "{expires}");
        let now = within("synced", SOON, cache.synced()).await.expect("a snapshot");
        assert_eq!(contents(&now), on_server(&server, ROOT));
    }
    drop(cache);
    server.until(|| server.watches() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn watches_do_not_accumulate() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let before = server.watches();
    for round in 0..5 {
        create(&server, &[("/app/config/c", ""), ("/app/config/c/d", "")]);
        cache.synced().await.expect("a snapshot");
        server.delete_by_hand("/app/config/c/d").expect("deleted");
        server.delete_by_hand("/app/config/c").expect("deleted");
        server.disconnect(&client);
        tokio::time::sleep(T).await;
        cache.synced().await.expect("a snapshot");
        tokio::time::sleep(SOON).await;
        assert_eq!(server.watches(), before, "{round}");
    }
}
