//! Mutual exclusion, and the other participants on the same path.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;

use super::fixture::{Fixture, SOON, Waiting, acquired, mutex, name_of, released};
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_clients_on_many_tasks_hold_one_at_a_time_under_growing_tokens() {
    let fixture = Fixture::with_directory("many").await;
    let (inside, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
    let clients = join_all((0..10).map(|_| fixture.client())).await;
    let tasks = clients.iter().flat_map(|client| {
        let mutex = mutex(client, &fixture.path);
        let (inside, held) = (Arc::clone(&inside), Arc::clone(&held));
        (0..3).map(move |_| {
            let (mutex, inside, held) = (mutex.clone(), Arc::clone(&inside), Arc::clone(&held));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = mutex.acquire().await.expect("held");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    held.lock().expect("no panic").push(guard.fencing_token());
                    tokio::task::yield_now().await;
                    assert!(guard.is_held());
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.expect("released");
                }
            })
        })
    });
    for done in within("all have had it", SOON * 3, join_all(tasks)).await {
        done.expect("no panic");
    }
    let tokens = held.lock().expect("no panic").clone();
    assert_eq!(tokens.len(), 300);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_are_curators_and_curators_count() {
    let fixture = Fixture::with_directory("names").await;
    let lock = mutex(&fixture.client().await, &fixture.path);
    let guard = acquired(&lock).await;
    let node = name_of(guard.node_path()).to_owned();
    assert!(node.starts_with("_c_") && node.len() == 3 + 36 + "-lock-0000000000".len(), "{node}");
    let stat = fixture.observer.stat(guard.node_path()).await.expect("it exists");
    assert_eq!(stat.czxid, guard.fencing_token());
    released(guard).await;

    // A Java service holds: its node was there first.
    let java = format!("{}/_c_11111111-2222-3333-4444-555555555555-lock-0000000000", fixture.path);
    fixture.observer.create_ephemeral(&java, b"10.0.0.7").await;
    let mut waiting = Waiting::behind(&fixture, &lock, 1).await;
    waiting.still_pending().await;
    assert_eq!(lock.participants().await.expect("an answer")[0], java);
    fixture.observer.delete(&java).await;
    released(waiting.turn().await).await;
}
