//! The recipe `InterProcessMultiLock` on real ZooKeeper servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::multi_lock::{Error, InterProcessMultiLock};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::{Client, ErrorKind, ErrorPolicy};

use crate::fixture::{Fixture, SOON, within};
use crate::support::unique_path;

/// The locks below the path of the test, and all of them as one.
fn paths(fixture: &Fixture) -> [String; 3] {
    ["a", "b", "c"].map(|name| format!("{}/{name}", fixture.path))
}

fn locks(client: &Client, paths: &[String]) -> InterProcessMultiLock {
    InterProcessMultiLock::new(client, paths.iter().rev().cloned()).expect("good paths")
}

async fn nodes(fixture: &Fixture) -> Vec<String> {
    let mut nodes = Vec::new();
    for path in paths(fixture) {
        nodes.extend(fixture.observer.children(&path).await);
    }
    nodes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_overlapping_locks_are_alone_in_each_and_all_get_their_turns() {
    let fixture = Fixture::with_directory("multi-lock").await;
    let paths = paths(&fixture);
    let inside: Arc<[AtomicUsize; 3]> = Arc::default();
    let clients = join_all((0..6).map(|_| fixture.client())).await;
    let tasks = (0..12).map(|number: usize| {
        // Two of the three, in any order, so that there are circles.
        let mine = [number % 3, (number + 1 + number / 6) % 3];
        let locks = locks(&clients[number % clients.len()], &mine.map(|at| paths[at].clone()));
        let inside = Arc::clone(&inside);
        tokio::spawn(async move {
            for _ in 0..10 {
                let guard = locks.acquire().await.expect("held");
                for at in mine {
                    assert_eq!(inside[at].fetch_add(1, Ordering::SeqCst), 0, "alone");
                }
                tokio::task::yield_now().await;
                assert!(guard.is_held());
                for at in mine {
                    inside[at].fetch_sub(1, Ordering::SeqCst);
                }
                guard.release().await.expect("they were held");
            }
        })
    });
    for done in within("all have had them", SOON * 3, join_all(tasks)).await {
        done.expect("no panic");
    }
    assert!(nodes(&fixture).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_session_is_killed_is_told_and_its_fenced_write_is_refused() {
    let fixture = Fixture::with_directory("multi-lock-killed").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(3), ErrorPolicy::Session).await;
    let paths = paths(&fixture);
    let report = unique_path("report");
    fixture.observer.create(&report, b"").await;
    let guard = within("they are free", SOON, locks(&client, &paths).acquire()).await.expect("held");
    let write = client.transaction().check(&guard.fence()).set_data(&report, b"held", None);
    write.commit().await.expect("a holder writes");
    proxy.kill_session().await;
    let other = locks(&fixture.client().await, &paths);
    let next = within("they are free again", SOON, other.acquire()).await.expect("held");
    for path in &paths {
        assert!(next.fencing_token(path) > guard.fencing_token(path), "{path}");
    }
    let late = client.transaction().check(&guard.fence()).set_data(&report, b"late", None);
    let refused = late.commit().await.expect_err("its session is over");
    assert!(
        matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Fenced | ErrorKind::OutcomeUnknown),
        "{refused}"
    );
    proxy.cut().await;
    within("it is told", SOON, guard.lost()).await;
    assert!(!guard.is_held());
    let error = within("it is over", SOON, guard.release()).await.expect_err("they were lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert_eq!(fixture.observer.data(&report).await.as_deref(), Some(&b"held"[..]));
    next.release().await.expect("they were held");
    assert!(nodes(&fixture).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_held_costs_none_of_the_others() {
    let fixture = Fixture::with_directory("multi-lock-tried").await;
    let paths = paths(&fixture);
    let (one, two) = (fixture.client().await, fixture.client().await);
    let last = InterProcessMutex::new(&two, paths[2].clone()).expect("a good path").acquire().await.expect("free");
    let locks = locks(&one, &paths);
    assert!(within("an answer", SOON, locks.try_acquire()).await.expect("an answer").is_none());
    let timeout = Duration::from_secs(2);
    assert!(within("an answer", SOON, locks.acquire_timeout(timeout)).await.expect("an answer").is_none());
    assert_eq!(nodes(&fixture).await.len(), 1, "that of the holder");
    last.release().await.expect("it was held");
    let guard = within("they are free", SOON, locks.try_acquire()).await.expect("an answer").expect("they are free");
    guard.release().await.expect("they were held");
}
