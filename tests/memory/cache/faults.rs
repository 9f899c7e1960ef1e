//! Losses of the connection and of the session, lost replies, servers that lag, processes that stand still.

use std::time::Duration;

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::testing::{Data, Loss, Operation, TestingServer};

use super::fixture::{ROOT, contents, create, grow, on_server, setup, tree, words};
use crate::fixture::{SOON, T, still_pending, within};

/// Changes of every kind, one of which leaves the version as it was.
fn edit(server: &TestingServer) {
    server.set_data_by_hand("/app/config/a", "edited").expect("set");
    server.delete_by_hand("/app/config/b").expect("deleted");
    server.delete_by_hand("/app/config/a-b").expect("deleted");
    create(server, &[("/app/config/a-b", "4"), ("/app/config/new/deep", "")]);
}

/// What is reported of it.
const EDITED: [&str; 6] = [
    "-/app/config/b",
    "-/app/config/a-b",
    "~/app/config/a",
    "+/app/config/a-b",
    "+/app/config/new",
    "+/app/config/new/deep",
];

fn edited_and_synced() -> Vec<String> {
    EDITED.iter().chain(&["synced"]).map(|&word| word.to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_in_an_outage_is_reported_once_and_nothing_else() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let mut changes = cache.changes();
    server.refuse(&client);
    server.disconnect(&client);
    edit(&server);
    tokio::time::sleep(SOON).await;
    assert_eq!(cache.snapshot().len(), 6, "the snapshot stays");
    server.heal();
    tokio::time::sleep(T).await;
    assert_eq!(words(&mut changes).await, edited_and_synced());
    assert_eq!(contents(&cache.snapshot()), on_server(&server, ROOT));
    create(&server, &[("/app/config/after", "")]);
    assert_eq!(words(&mut changes).await, ["+/app/config/after"], "the watch is there");
}

#[tokio::test(start_paused = true)]
async fn a_new_session_compares_and_goes_on() {
    let (server, client) = setup().await;
    let other = server.client().await.expect("a client");
    other.create("/app/config/ephemeral", "", CreateMode::Ephemeral).await.expect("created");
    let cache = tree(&client).await;
    for round in 0..3 {
        let mut changes = cache.changes();
        server.refuse(&client);
        server.expire_session(&client);
        tokio::time::sleep(SOON).await;
        if round == 0 {
            edit(&server);
        }
        server.heal();
        tokio::time::sleep(T).await;
        let expected = if round == 0 { edited_and_synced() } else { vec!["synced".to_owned()] };
        assert_eq!(words(&mut changes).await, expected, "{round}");
        assert_eq!(contents(&cache.snapshot()), on_server(&server, ROOT), "{round}");
    }
    let mut changes = cache.changes();
    server.expire_session(&other);
    tokio::time::sleep(T).await;
    assert_eq!(words(&mut changes).await, ["-/app/config/ephemeral"]);
}

#[tokio::test(start_paused = true)]
async fn without_changes_a_reconnect_reports_none() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let mut changes = cache.changes();
    for _ in 0..5 {
        assert_eq!(server.disconnect(&client), 1);
        tokio::time::sleep(T).await;
        assert_eq!(words(&mut changes).await, ["synced"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_costs_a_comparison() {
    for operation in [Operation::AddWatch, Operation::Sync, Operation::GetData, Operation::List, Operation::Exists] {
        for loss in [Loss::Applied, Loss::NotApplied] {
            let (server, client) = setup().await;
            server.lose_next_reply(&client, operation, loss);
            if operation == Operation::Exists {
                // Only a comparison asks for stats.
                let cache = tree(&client).await;
                server.disconnect(&client);
                within("it is compared", T * 2, cache.synced()).await.expect("a snapshot");
            }
            let cache = within("started", T * 2, Cache::tree(&client, ROOT).start()).await.expect("a cache");
            assert_eq!(server.lost_replies(), 1, "{operation:?} {loss:?}");
            assert_eq!(contents(&cache.snapshot()), on_server(&server, ROOT), "{operation:?} {loss:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_lost_after_the_start_loses_no_change() {
    for at in ["/app/config/a", "/app/config/new"] {
        let (server, client) = setup().await;
        let cache = tree(&client).await;
        let mut changes = cache.changes();
        server.lose_next_reply(&client, Operation::GetData, Loss::Applied);
        if server.stat(at).is_some() {
            server.set_data_by_hand(at, "written").expect("set");
        } else {
            create(&server, &[(at, "new"), ("/app/config/new/deep", "")]);
        }
        tokio::time::sleep(T).await;
        assert_eq!(server.lost_replies(), 1);
        assert_eq!(words(&mut changes).await.last().map(String::as_str), Some("synced"));
        assert_eq!(contents(&cache.snapshot()), on_server(&server, ROOT));
    }
}

#[tokio::test(start_paused = true)]
async fn synced_waits_for_the_connection_and_the_comparison() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    server.refuse(&client);
    server.disconnect(&client);
    let mut synced = Box::pin(cache.synced());
    still_pending("no connection", &mut synced).await;
    edit(&server);
    server.heal();
    let snapshot = within("there is one", T * 2, synced).await.expect("a snapshot");
    assert_eq!(contents(&snapshot), on_server(&server, ROOT));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_server_and_one_that_lost_its_data() {
    for data in [Data::Kept, Data::Lost] {
        let (server, client) = setup().await;
        let cache = tree(&client).await;
        server.stop();
        tokio::time::sleep(SOON).await;
        server.restart(data);
        tokio::time::sleep(T * 4).await;
        let now = within("synced", T * 4, cache.synced()).await.expect("a snapshot");
        assert_eq!(contents(&now), on_server(&server, ROOT), "{data:?}");
        if data == Data::Lost {
            assert!(now.is_empty());
            grow(&server);
            let now = within("synced", T, cache.synced()).await.expect("a snapshot");
            assert_eq!(contents(&now), on_server(&server, ROOT));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn started_without_a_connection_it_begins_when_there_is_one() {
    let (server, client) = setup().await;
    server.refuse(&client);
    server.disconnect(&client);
    let mut starting = Box::pin(Cache::tree(&client, ROOT).start());
    still_pending("no connection", &mut starting).await;
    server.heal();
    let cache = within("started", T * 2, starting).await.expect("a cache");
    assert_eq!(contents(&cache.snapshot()), on_server(&server, ROOT));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lags_makes_no_node_older() {
    let server = TestingServer::builder().servers(3).lag(Duration::from_millis(0)..=Duration::from_millis(800)).start();
    grow(&server);
    let (client, writer) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    let cache = within("started", T, Cache::tree(&client, ROOT).start()).await.expect("a cache");
    let mut newest = 0;
    for number in 0..40 {
        writer.set("/app/config/a", number.to_string(), None).await.expect("set");
        match number % 4 {
            0 => drop(server.disconnect(&client)),
            2 => drop(server.expire_session(&client)),
            _ => {}
        }
        let now = within("synced", T * 4, cache.synced()).await.expect("a snapshot");
        let node = now.get("/app/config/a").expect("it exists");
        assert!(node.stat().mzxid >= newest, "{number}");
        newest = node.stat().mzxid;
        assert_eq!(node.value(), Some(&number.to_string().into_bytes()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_past_its_session_compares() {
    let (server, client) = setup().await;
    let cache = tree(&client).await;
    let mut changes = cache.changes();
    server.freeze_client(&client);
    edit(&server);
    tokio::time::sleep(T * 3).await;
    assert!(!cache.snapshot().is_fresh());
    server.thaw_client(&client);
    tokio::time::sleep(T * 2).await;
    assert_eq!(words(&mut changes).await, edited_and_synced());
    assert!(cache.snapshot().is_fresh());
}
