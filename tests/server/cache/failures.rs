//! Connections, sessions and servers that end while the tree is edited.

use std::time::Duration;

use zookeeper_recipes::cache::{Cache, Change};
use zookeeper_recipes::{ConnectionState, ErrorPolicy};

use super::fixture::*;
use crate::support::{Fault, Observer, OpCode, Proxy, ZooKeeper, eventually, unique_path, within};

const SESSION: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_during_an_outage_are_reported_once_also_a_node_deleted_and_created_with_an_equal_version() {
    let fixture = Fixture::with_directory("outage").await;
    let (observer, path) = (&fixture.observer, &fixture.path);
    create(observer, path, &[("/again", "same"), ("/kept", "1"), ("/dir", ""), ("/dir/gone", ""), ("/written", "2")])
        .await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard).await;
    let mut states = States::of(&client);
    let cache = tree(&client, path).await;
    let mut changes = cache.changes();
    let before = cache.snapshot();

    proxy.set(Fault::Refuse).await;
    states.wait_for(ConnectionState::Suspended).await;
    delete(observer, path, &["/again", "/dir/gone"]).await;
    create(observer, path, &[("/again", "same"), ("/dir/new", ""), ("/dir/new/below", "")]).await;
    observer.set_data(&format!("{path}/written"), b"3").await;
    assert_eq!(contents(&cache.snapshot()), contents(&before), "the data stays");
    proxy.forget_requests();
    proxy.set(Fault::Pass).await;

    let words = until_synced(path, &mut changes).await;
    assert_eq!(words, ["-/dir/gone", "-/again", "+/again", "+/dir/new", "+/dir/new/below", "~/written"]);
    let again = format!("{path}/again");
    let version = |snapshot: &zookeeper_recipes::cache::Snapshot<Bytes>| {
        snapshot.get(&again).map(|node| (node.value().cloned(), node.stat().version))
    };
    assert_eq!(version(&before), version(&cache.snapshot()), "by its version and data it could not be told");
    assert_eq!(contents(&cache.snapshot()), on_server(observer, path).await);
    assert_eq!(proxy.request_count(OpCode::GetData), 4, "of what differs alone");
    assert_eq!(proxy.request_count(OpCode::Exists), 6, "one for each known node");
    assert!(told(&cache, &mut changes).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_session_keeps_the_data_and_takes_its_ephemeral_nodes_with_it() {
    let fixture = Fixture::with_directory("killed").await;
    let (observer, path) = (&fixture.observer, &fixture.path);
    create(observer, path, &[("/kept", "1")]).await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let (other_proxy, other) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let foreign = format!("{path}/foreign");
    other.create(&foreign, "theirs", zookeeper_recipes::CreateMode::Ephemeral).await.expect("created");
    let cache = tree(&client, path).await;
    let mut changes = cache.changes();
    let mut states = States::of(&client);

    // Of another client: only its node goes.
    other_proxy.set(Fault::Refuse).await;
    other_proxy.kill_session().await;
    assert_eq!(word(path, &next(&mut changes).await), "-/foreign");

    // Its own.
    proxy.kill_session().await;
    proxy.cut().await;
    states.wait_for(ConnectionState::Lost).await;
    let kept = format!("{path}/kept");
    assert_eq!(text(&cache.snapshot(), &kept).as_deref(), Some("1"));
    assert_eq!(until_synced(path, &mut changes).await, Vec::<String>::new());
    observer.set_data(&kept, b"2").await;
    assert_eq!(told(&cache, &mut changes).await, ["~/kept"]);
    assert_eq!(text(&cache.snapshot(), &kept).as_deref(), Some("2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_and_edits_after_it() {
    let server = ZooKeeper::start().await;
    let path = unique_path("restart");
    let observer = Observer::connect(&server.connect_string()).await;
    create(&observer, &path, &[("", "0"), ("/a", "1"), ("/a/b", "2"), ("/c", "3")]).await;
    let client = connect(builder(&server.connect_string(), Duration::from_secs(10))).await;
    let cache = tree(&client, &path).await;
    let mut changes = cache.changes();
    for round in 0..2 {
        if round == 0 {
            server.restart().await
        } else {
            restart_after_kill(&server).await
        }
        let new = format!("{path}/new");
        observer.create(&new, b"").await;
        observer.set_data(&format!("{path}/a"), round.to_string().as_bytes()).await;
        observer.delete(&new).await;
        observer.create(&new, b"again").await;
        let now = synced(&cache).await;
        assert_eq!(contents(&now), on_server(&observer, &path).await, "{round}");
        assert_eq!(now.len(), 5);
        let words: Vec<String> = taken(&mut changes).iter().map(|change| word(&path, change)).collect();
        assert!(words.contains(&"synced".to_owned()), "{words:?}");
        let once = |word: &str| words.iter().filter(|one| *one == word).count();
        assert_eq!((once("~/a"), once("+/a"), once("-/a"), once("~/c"), once("~/a/b")), (1, 0, 0, 0, 0), "{words:?}");
        assert_eq!(once("+/new") - once("-/new"), 1, "{words:?}");
        observer.delete(&new).await;
        assert_eq!(told(&cache, &mut changes).await, ["-/new"]);
    }
}

async fn restart_after_kill(server: &ZooKeeper) {
    server.kill().await;
    server.start_again().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_makes_the_snapshot_old_and_an_answer_makes_it_fresh() {
    let fixture = Fixture::with_directory("silence").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let cache = tree(&client, &fixture.path).await;
    assert!(cache.snapshot().is_fresh());
    proxy.set(Fault::BlackHole).await;
    eventually("it is not fresh", SOON, || async { !cache.snapshot().is_fresh() }).await;
    fixture.observer.set_data(&fixture.path, b"later").await;
    assert_eq!(text(&cache.snapshot(), &fixture.path).as_deref(), Some(""), "the past");
    proxy.set(Fault::Pass).await;
    let now = synced(&cache).await;
    assert_eq!(text(&now, &fixture.path).as_deref(), Some("later"));
    eventually("it is fresh", SOON, || async { cache.snapshot().is_fresh() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_is_started_without_a_server_waits_for_it() {
    let fixture = Fixture::with_directory("bad-connect").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard).await;
    let mut states = States::of(&client);
    proxy.set(Fault::Refuse).await;
    states.wait_for(ConnectionState::Suspended).await;
    let mut starting = Box::pin(Cache::tree(&client, &fixture.path).start());
    still_pending("there is no server", &mut starting).await;
    proxy.set(Fault::Pass).await;
    let cache = within("it starts", SOON, starting).await.expect("a cache");
    assert_eq!(paths(&cache.snapshot()), std::slice::from_ref(&fixture.path));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_during_the_first_reading_and_during_the_comparison() {
    for op in [OpCode::GetData, OpCode::GetChildren2, OpCode::Sync, OpCode::Exists] {
        let fixture = Fixture::with_directory("lost").await;
        let (observer, path) = (&fixture.observer, &fixture.path);
        create(observer, path, &[("/a", "1"), ("/a/b", "2"), ("/c", "3")]).await;
        let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard).await;
        // The first reading asks for no stat alone.
        let first = (op != OpCode::Exists).then(|| lose(&proxy, What::Answer, op, crate::support::How::Rst));
        let cache = tree(&client, path).await;
        assert!(first.is_none_or(|first| first.has_fired()), "{op:?}");
        assert_eq!(contents(&cache.snapshot()), on_server(observer, path).await, "{op:?}");
        let mut changes = cache.changes();
        change_while_away(&fixture, &proxy, &client).await;
        let second = lose(&proxy, What::Answer, op, crate::support::How::Rst);
        proxy.set(Fault::Pass).await;
        let words = until_synced(path, &mut changes).await;
        assert!(second.has_fired(), "{op:?}");
        assert_eq!(words, ["-/a/b", "+/a/new", "~/c"], "{op:?}");
        assert_eq!(contents(&cache.snapshot()), on_server(observer, path).await, "{op:?}");
    }
}

async fn change_while_away(fixture: &Fixture, proxy: &Proxy, client: &zookeeper_recipes::Client) {
    let mut states = States::of(client);
    proxy.set(Fault::Refuse).await;
    states.wait_for(ConnectionState::Suspended).await;
    delete(&fixture.observer, &fixture.path, &["/a/b"]).await;
    create(&fixture.observer, &fixture.path, &[("/a/new", "")]).await;
    fixture.observer.set_data(&format!("{}/c", fixture.path), b"4").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_does_not_read_is_told_that_it_lags_and_gets_a_snapshot() {
    let fixture = Fixture::with_directory("lagging").await;
    let cache = start(Cache::tree(&fixture.client().await, &fixture.path).capacity(2)).await;
    let mut changes = cache.changes();
    for number in 0..20 {
        fixture.observer.create(&format!("{}/{number:02}", fixture.path), b"").await;
        synced(&cache).await;
    }
    let Change::Lagged(snapshot) = next(&mut changes).await else { panic!("it lags") };
    let mut paths = paths(&snapshot);
    paths.extend(taken(&mut changes).iter().map(|change| match change {
        Change::Added(node) => node.path().to_owned(),
        other => panic!("{other:?}"),
    }));
    assert_eq!(paths, super::fixture::paths(&cache.snapshot()));
}
