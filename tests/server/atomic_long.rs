//! The recipe `DistributedAtomicLong` on real ZooKeeper servers.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::atomic_long::DistributedAtomicLong;
use zookeeper_recipes::{Client, ErrorKind, ErrorPolicy};

use crate::fixture::{Fixture, SOON, builder, connect, for_each_loss, lose, within};
use crate::support::{OpCode, unique_path};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);
/// The shortest session that the promises hold for.
const BLOCKED: Duration = Duration::from_secs(2);

fn number(client: &Client, path: &str) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, path).expect("a good path")
}

async fn held(fixture: &Fixture, path: &str) -> Option<i64> {
    let data = fixture.observer.data(path).await?;
    data.try_into().ok().map(i64::from_be_bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_see_eight_bytes_in_a_persistent_node_and_an_ephemeral_child_while_a_handle_is_there() {
    let fixture = Fixture::new("atomic").await;
    let client = fixture.client().await;
    let path = format!("{}/deep/number", fixture.path);
    let hits = number(&client, &path);
    assert_eq!(hits.get().await, Ok(0));
    assert!(!fixture.observer.exists(&path).await);
    hits.add(258).await.expect("added");
    assert_eq!(fixture.observer.data(&path).await, Some(vec![0, 0, 0, 0, 0, 0, 1, 2]));
    assert_eq!(fixture.observer.owner(&path).await, Some(0));
    let [child] = &fixture.observer.children(&path).await[..] else { panic!("one child") };
    assert_eq!(fixture.observer.owner(&format!("{path}/{child}")).await, client.session_id());
    fixture.observer.set_data(&path, &(-5_i64).to_be_bytes()).await;
    let added = hits.increment().await.expect("added");
    assert_eq!((added.before, added.after), (-5, -4));
    assert_eq!(hits.compare_and_set(-5, 1).await, Ok(false));
    assert_eq!(hits.compare_and_set(-4, 1).await, Ok(true));
    assert_eq!(hits.initialize(7).await, Ok(false));
    drop(hits);
    fixture.observer.wait_for_children(&path, 0).await;
    assert_eq!(held(&fixture, &path).await, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_addition_counts_once() {
    let fixture = Fixture::with_directory("atomic-lost").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let path = format!("{}{}", fixture.path, unique_path("number"));
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let session = client.session_id();
        let hits = number(&client, &path);
        hits.add(10).await.expect("added");
        let fault = lose(&proxy, what, OpCode::Multi, how);
        let added = within("it is known", SOON, hits.add(5)).await.expect("known");
        assert!(fault.has_fired(), "{case}");
        assert_eq!(client.session_id(), session, "{case}: the session survived");
        assert_eq!((added.before, added.after), (10, 15), "{case}");
        assert_eq!(held(fixture, &path).await, Some(15), "{case}");
        let added = hits.increment().await.expect("added");
        assert_eq!((added.before, added.after), (15, 16), "{case}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_killed_in_doubt_leaves_the_outcome_unknown() {
    let fixture = Fixture::new("atomic-killed").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let hits = number(&client, &fixture.path);
    hits.add(1).await.expect("added");
    proxy.kill_session().await;
    proxy.cut().await;
    // Whether the client knows by then that its session is over is a matter of time.
    let mut sum = 1;
    match within("it ends", SOON, hits.add(10)).await {
        Ok(added) => sum = added.after,
        Err(error) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}"),
    }
    let added = within("in the next session", SOON, hits.add(100)).await.expect("added");
    assert_eq!((added.before, added.after), (sum, sum + 100));
    assert_eq!(held(&fixture, &fixture.path).await, Some(added.after));
}

/// Curator's `testSimulation`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_add_at_the_same_time_and_the_sum_is_exact() {
    let fixture = Fixture::with_directory("atomic-many").await;
    let (path, lock) = (format!("{}/number", fixture.path), format!("{}/lock", fixture.path));
    let clients = join_all((0..8).map(|_| fixture.client())).await;
    let adders = clients.iter().enumerate().map(|(at, client)| {
        let mut builder = DistributedAtomicLong::builder(client, &*path);
        if at % 2 == 0 {
            builder = builder.promoted_to_lock(&*lock).optimistic_tries(2);
        }
        let number = builder.build().expect("good paths");
        tokio::spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..40 {
                seen.push(number.increment().await.expect("added").after);
            }
            seen
        })
    });
    let seen = within("all have added", SOON * 3, join_all(adders)).await;
    let seen: Vec<Vec<i64>> = seen.into_iter().map(|seen| seen.expect("no panic")).collect();
    assert!(seen.iter().all(|seen| seen.is_sorted()));
    assert!(seen.concat().into_iter().collect::<BTreeSet<_>>().into_iter().eq(1..=320));
    assert_eq!(held(&fixture, &path).await, Some(320));
    fixture.observer.wait_for_children(&path, 0).await;
    assert_eq!(fixture.observer.children(&lock).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_addition_is_one_request() {
    let fixture = Fixture::new("atomic-costs").await;
    // So long a session that no ping comes in between.
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(30), ErrorPolicy::Standard).await;
    let hits = number(&client, &fixture.path);
    hits.increment().await.expect("added");
    proxy.forget_requests();
    let before = client.request_counts();
    for _ in 0..50 {
        hits.increment().await.expect("added");
    }
    assert_eq!(proxy.request_count(OpCode::Multi), 50);
    let sent = client.request_counts() - before;
    assert_eq!((sent.multis, sent.total()), (50, 50), "{sent}");
}

/// Curator's clients and ours may meet a node without this permission.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_permission_to_create_children_a_write_says_which_are_needed() {
    let fixture = Fixture::new("atomic-denied").await;
    fixture.observer.create_forbidden(&fixture.path).await;
    let hits = number(&fixture.client().await, &fixture.path);
    let error = hits.increment().await.expect_err("denied");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    assert!(error.to_string().contains("READ, WRITE, CREATE and DELETE"), "{error}");
}

/// A client whose process was stopped does not know yet that its session is over, and refuses its requests at once. On
/// such a runtime nothing else runs while a call polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_was_blocked_for_longer_than_the_session_goes_on() {
    let fixture = Fixture::with_directory("atomic-blocked").await;
    let (path, servers) = (format!("{}/number", fixture.path), fixture.server.connect_string());
    let (done, outcome) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let set = runtime.block_on(async {
            let client = connect(builder(&servers, BLOCKED)).await;
            let number = number(&client, &path);
            number.set(1).await.expect("set");
            std::thread::sleep(BLOCKED + SESSION);
            number.set(2).await.expect("set in the next session");
            number.add(3).await.expect("added")
        });
        // The test may have given up.
        let _ = done.send(set);
    });
    let added = within("it goes on", SOON + BLOCKED + SESSION, outcome).await.expect("no panic");
    assert_eq!((added.before, added.after), (2, 5));
}
