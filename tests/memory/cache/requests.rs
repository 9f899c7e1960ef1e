//! What a cache costs.

use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::testing::Operation::{AddWatch, Exists, GetData, List, Multi};
use zookeeper_recipes::testing::{RecordKind, TestingServer};

use super::fixture::{ROOT, create, setup, tree, words};
use crate::fixture::{SOON, T, requests};

/// Waits until everything is quiet, and returns the requests since the last call, without heartbeats.
async fn since(server: &TestingServer) -> Vec<zookeeper_recipes::testing::Operation> {
    tokio::time::sleep(SOON).await;
    let found = requests(server).into_iter().filter(|operation| *operation != Multi).collect();
    server.clear_records();
    found
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_read_once_and_only_directories_with_children_are_listed() {
    let (server, client) = setup().await;
    server.clear_records();
    let cache = tree(&client).await;
    // Six nodes; three of them have children.
    let expected = [AddWatch, GetData, List, GetData, GetData, GetData, List, GetData, List, GetData];
    assert_eq!(since(&server).await, expected);
    drop(cache);
}

#[tokio::test(start_paused = true)]
async fn a_change_costs_one_event_and_at_most_one_read() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let mut changes = cache.changes();
    since(&server).await;
    create(&server, &[("/app/config/new", "1")]);
    assert_eq!(since(&server).await, [GetData]);
    create(&server, &[("/app/config/new/deep", "2")]);
    assert_eq!(since(&server).await, [GetData]);
    server.set_data_by_hand("/app/config/new", "3").expect("set");
    assert_eq!(since(&server).await, [GetData]);
    for path in ["/app/config/new/deep", "/app/config/new"] {
        server.delete_by_hand(path).expect("deleted");
        assert_eq!(since(&server).await, []);
    }
    assert_eq!(words(&mut changes).await.len(), 5);
    server.delete_by_hand("/app/other").expect("deleted");
    tokio::time::sleep(T * 10).await;
    let events = server.records().into_iter().filter(|record| matches!(record.what, RecordKind::Event { .. }));
    assert_eq!(events.count(), 0, "nothing outside is reported");
    assert_eq!(since(&server).await, [], "nothing is polled");
}

#[tokio::test(start_paused = true)]
async fn a_comparison_reads_only_what_differs() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    server.refuse(&client);
    server.disconnect(&client);
    server.set_data_by_hand("/app/config/a/x/y", "new").expect("set");
    server.clear_records();
    server.heal();
    tokio::time::sleep(T).await;
    assert_eq!(since(&server).await, [Exists, Exists, Exists, Exists, Exists, Exists, GetData]);
    server.refuse(&client);
    server.disconnect(&client);
    server.delete_by_hand("/app/config/a/x/y").expect("deleted");
    create(&server, &[("/app/config/b/new", "")]);
    server.heal();
    tokio::time::sleep(T).await;
    // `/a/x` has no children any more; `/b` has one.
    let found = since(&server).await;
    assert_eq!(found, [Exists, Exists, Exists, Exists, Exists, Exists, List, GetData]);
    assert_eq!(cache.snapshot().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_node_or_a_stat_costs_what_it_has_to() {
    let (server, client) = setup().await;
    server.clear_records();
    let node = Cache::node(&client, ROOT).start().await.expect("a cache");
    assert_eq!(since(&server).await, [AddWatch, GetData]);
    create(&server, &[("/app/config/new", "")]);
    server.set_data_by_hand("/app/config/a", "new").expect("set");
    assert_eq!(since(&server).await, [], "its children do not count");
    drop(node);
    since(&server).await;
    let stats = Cache::children(&client, ROOT).without_data().start().await.expect("a cache");
    assert_eq!(since(&server).await, [AddWatch, Exists, List, Exists, Exists, Exists, Exists]);
    server.set_data_by_hand(ROOT, "new").expect("set");
    assert_eq!(since(&server).await, [], "the root is not kept");
    drop(stats);
}

#[tokio::test(start_paused = true)]
async fn a_missing_root_costs_no_request_until_it_is_created() {
    let (server, client) = setup().await;
    server.clear_records();
    let cache = Cache::tree(&client, "/later").start().await.expect("a cache");
    assert_eq!(since(&server).await, [AddWatch, GetData]);
    tokio::time::sleep(T * 60).await;
    assert_eq!(since(&server).await, [], "nothing is polled");
    assert!(cache.snapshot().is_empty() && cache.snapshot().is_fresh());
    create(&server, &[("/later", "")]);
    assert_eq!(since(&server).await, [GetData]);
    assert_eq!(cache.snapshot().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_caches_of_a_client_do_not_all_compare_at_once_after_a_reconnect() {
    let (server, client) = setup().await;
    let start = || Cache::node(&client, ROOT).start();
    let caches = futures::future::try_join_all((0..200).map(|_| start())).await.expect("caches");
    since(&server).await;
    server.disconnect(&client);
    tokio::time::sleep(T).await;
    let is_look = |what: &RecordKind| matches!(what, RecordKind::Request { operation: Exists, .. });
    let times: Vec<u64> =
        server.records().iter().filter(|record| is_look(&record.what)).map(|record| record.at).collect();
    assert_eq!(times.len(), caches.len());
    let spread = times.last().expect("one") - times[0];
    assert!((50..150).contains(&spread), "over {spread} ms");
}
