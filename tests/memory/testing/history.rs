//! The history: `records`, `count`, and that a seed repeats it.

use std::time::Duration;

use zookeeper_recipes::testing::{Loss, Operation, Record, RecordKind, Target, TestingServer, WatchEvent};

use super::fixture::{T, connect, create, latch};

/// The watch events among the records.
pub(crate) fn events(records: &[Record]) -> Vec<WatchEvent> {
    let event = |record: &Record| match &record.what {
        RecordKind::Event { event, .. } => Some(*event),
        _ => None,
    };
    records.iter().filter_map(event).collect()
}

#[tokio::test(start_paused = true)]
async fn records_tell_the_life_of_a_session_in_order() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    let first = client.session_id().expect("a session");
    create(&client, "/node").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.disconnect(&client);
    server.until(|| !client.connection_state().is_connected()).await;
    server.until(|| client.connection_state().is_connected()).await;
    server.expire_session(&client);
    server.until(|| client.session_id().is_some_and(|id| id != first)).await;
    client.close().await.unwrap();

    let records = server.records();
    assert!(records.is_sorted_by_key(|record| record.at), "in the order of time");
    let of = |session: i64| records.iter().filter(move |record| record.session == session).map(|record| &record.what);
    let create = RecordKind::Request { client: 1, operation: Operation::Create, path: "/node".to_owned() };
    // A reconnect is told when a quorum has answered.
    let confirmed = RecordKind::Request { client: 1, operation: Operation::Multi, path: "/".to_owned() };
    let life: Vec<_> = of(first).collect();
    let expected = [
        RecordKind::SessionOpened,
        RecordKind::Connected,
        create,
        RecordKind::Disconnected,
        RecordKind::Connected,
        confirmed,
        RecordKind::SessionExpired,
        RecordKind::Disconnected,
        RecordKind::Expired,
    ];
    assert_eq!(life, expected.iter().collect::<Vec<_>>());
    let created = records.iter().find(|record| matches!(record.what, RecordKind::Request { .. })).expect("the create");
    let cut = records.iter().find(|record| record.what == RecordKind::Disconnected).expect("the cut");
    assert!(cut.at - created.at >= 1_000, "in milliseconds");
    let second = records.last().expect("an end").session;
    assert_ne!(second, first);
    let goodbye = RecordKind::Request { client: 1, operation: Operation::Close, path: String::new() };
    let life: Vec<_> = of(second).collect();
    let expected =
        [&RecordKind::SessionOpened, &RecordKind::Connected, &goodbye, &RecordKind::SessionClosed, &RecordKind::Closed];
    assert_eq!(life, expected);
}

#[tokio::test(start_paused = true)]
async fn records_tell_of_watch_events_as_they_reach_the_client() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    let latch = latch(&client).await;
    let leadership = latch.wait_for_leadership().await.unwrap();
    let node = latch.our_path().expect("a node");
    server.until(|| server.watches() > 0).await;
    server.clear_records();
    assert_eq!(server.records(), []);
    server.delete_by_hand(&node).unwrap();
    leadership.lost().await;
    let deleted = RecordKind::Event { client: 1, event: WatchEvent::NodeDeleted, path: node };
    assert!(server.records().iter().any(|record| record.what == deleted), "{:?}", server.records());
}

#[tokio::test(start_paused = true)]
async fn count_tells_requests_by_kind_and_client_and_is_not_cleared() {
    let server = TestingServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    create(&client, "/node").await;
    client.get("/node").await.unwrap();
    client.set("/node", "", None).await.unwrap();
    client.children("/node").await.unwrap();
    client.transaction().check_version("/node", 1).commit().await.unwrap();
    for _ in 0..3 {
        client.exists("/node").await.unwrap();
        other.exists("/node").await.unwrap();
    }
    client.delete("/node", None).await.unwrap();
    server.clear_records();
    let counts = [
        (Operation::Create, 1),
        (Operation::GetData, 1),
        (Operation::SetData, 1),
        (Operation::List, 1),
        (Operation::Multi, 1),
        (Operation::Exists, 3),
        (Operation::Delete, 1),
        (Operation::Sync, 0),
        (Operation::RemoveWatch, 0),
        (Operation::Close, 0),
    ];
    for (of, count) in counts {
        assert_eq!(server.count(&client, of), count, "{of:?}");
    }
    assert_eq!(server.count(&other, Operation::Exists), 3);
    assert_eq!(server.count(Target::ALL, Operation::Exists), 6);
    assert_eq!(server.count(Target::ALL, Operation::Create), 1);
    let total = counts.iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(client.request_counts().total(), total, "as the client counts them");
    other.close().await.unwrap();
    assert_eq!(server.count(&other, Operation::Close), 1);
}

/// A busy life with failures, on a runtime of its own.
fn life(seed: u64) -> Vec<Record> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let server = TestingServer::builder().seed(seed).servers(3).start();
        let mut cast = Vec::new();
        for _ in 0..4 {
            let client = connect(&server).await;
            cast.push((latch(&client).await, client));
        }
        for (step, (latch, client)) in cast.iter().enumerate() {
            server.until(|| cast.iter().any(|(latch, _)| latch.has_leadership())).await;
            match step {
                0 => server.freeze_client(client),
                1 => drop(server.disconnect(client)),
                2 => drop(server.expire_session(client)),
                _ => server.lose_next_reply(Target::ALL, Operation::Sync, Loss::Applied),
            }
            tokio::time::sleep(T * 2).await;
            server.thaw_client(client);
            latch.close().await.expect("closed");
        }
        assert_eq!(server.panics(), [""; 0]);
        server.records()
    })
}

#[test]
fn a_seed_repeats_a_history_and_another_one_tells_another() {
    let first = life(7);
    assert!(first.len() > 100, "{} records", first.len());
    for _ in 0..3 {
        assert_eq!(life(7), first);
    }
    assert_ne!(life(8), first);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_of_long_paths_is_bounded() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let last = 400;
    for number in 0..=last {
        let path = format!("/{}-{number}", "x".repeat(60_000));
        assert_eq!(client.exists(&path).await.expect("an answer"), None);
    }
    let path_of = |record: Record| match record.what {
        RecordKind::Request { path, .. } => path,
        _ => String::new(),
    };
    let paths: Vec<String> = server.records().into_iter().map(path_of).collect();
    let bytes: usize = paths.iter().map(String::len).sum();
    assert!((8_000_000..=16 << 20).contains(&bytes), "{bytes}");
    assert!(paths.last().is_some_and(|path| path.ends_with(&format!("-{last}"))));
}
