//! All of the locks or none, in one order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::multi_lock::{InterProcessMultiLock, Lock};
use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
use zookeeper_recipes::testing::Operation;

use super::fixture::{PATHS, acquired, lines, lines_have, locks, mutex, setup};
use crate::fixture::{SOON, T, requests, still_pending, timed, within};

#[tokio::test(start_paused = true)]
async fn the_locks_are_acquired_in_the_order_of_their_paths_however_they_are_named() {
    let (server, [one, two]) = setup().await;
    let backwards = InterProcessMultiLock::new(&one, PATHS.into_iter().rev()).expect("good paths");
    assert_eq!(backwards.paths().collect::<Vec<_>>(), PATHS);
    let middle = mutex(&two, PATHS[1]).acquire().await.expect("held");
    let mut waiting = Box::pin(backwards.acquire());
    still_pending("one is held", &mut waiting).await;
    assert_eq!(lines(&server), [1, 2, 0], "it has the first, waits for the second, and has not asked for the third");
    middle.release().await.expect("it was held");
    let guard = within("all are free", SOON, waiting).await.expect("held");
    assert!(guard.is_held());
    assert_eq!(lines(&server), [1, 1, 1]);
    guard.release().await.expect("they were held");
    assert_eq!((lines(&server), server.watches()), ([0, 0, 0], 0));
}

#[tokio::test(start_paused = true)]
async fn free_locks_cost_three_requests_each_and_their_release_is_sent_together_the_last_first() {
    let (server, [client]) = setup().await;
    drop(acquired(&client).await);
    lines_have(&server, [0, 0, 0]).await;
    tokio::time::sleep(SOON).await;
    server.clear_records();
    let guard = acquired(&client).await;
    assert_eq!(requests(&server), [Operation::Create, Operation::List].repeat(3));
    server.clear_records();
    let nodes: Vec<_> = guard.node_paths().map(str::to_owned).collect();
    guard.release().await.expect("they were held");
    assert_eq!(requests(&server), [Operation::Delete; 3]);
    let records = server.records();
    assert!(records.iter().all(|record| record.at == records[0].at), "{records:?}");
    let text = format!("{records:?}");
    let order: Vec<_> = nodes.iter().map(|node| text.find(node).expect("it is deleted")).collect();
    assert!(order.is_sorted_by(|one, next| one > next), "{records:?}");
}

#[tokio::test(start_paused = true)]
async fn many_tasks_with_overlapping_locks_all_get_their_turns() {
    let (server, clients) = setup::<3>().await;
    let inside: Arc<[AtomicUsize; 3]> = Arc::default();
    let mut tasks = Vec::new();
    for number in 0..18 {
        let client = &clients[number % 3];
        // Each names two or three of them, in any order.
        let mut mine = vec![number % 3, (number + 1 + number / 9) % 3];
        if number % 4 == 0 {
            mine = vec![2, 0, 1];
        }
        let locks = InterProcessMultiLock::new(client, mine.iter().map(|at| PATHS[*at])).expect("good paths");
        let inside = Arc::clone(&inside);
        tasks.push(server.spawn(client, async move {
            for _ in 0..5 {
                let guard = locks.acquire().await.expect("held");
                for at in &mine {
                    assert_eq!(inside[*at].fetch_add(1, Ordering::SeqCst), 0, "alone");
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
                assert!(guard.is_held());
                for at in &mine {
                    inside[*at].fetch_sub(1, Ordering::SeqCst);
                }
                guard.release().await.expect("they were held");
            }
        }));
    }
    for task in tasks {
        within("its turns come", T * 3, task).await.expect("no panic");
    }
    assert_eq!((lines(&server), server.watches()), ([0, 0, 0], 0));
}

#[tokio::test(start_paused = true)]
async fn one_timeout_covers_all_locks_and_nothing_is_left_when_it_is_over() {
    let (server, [one, two]) = setup().await;
    let last = mutex(&two, PATHS[2]).acquire().await.expect("held");
    let (took, got) = timed(locks(&one).acquire_timeout(T)).await;
    assert!(got.expect("an answer").is_none());
    assert!(took <= T && took > T / 2, "{took:?}");
    assert_eq!(lines(&server), [0, 0, 1]);
    let (took, got) = timed(locks(&one).try_acquire()).await;
    assert!(got.expect("an answer").is_none() && took < SOON, "{took:?}");
    assert_eq!(lines(&server), [0, 0, 1]);
    last.release().await.expect("it was held");
    let guard = locks(&one).try_acquire().await.expect("an answer").expect("they are free");
    assert!(locks(&two).try_acquire().await.expect("an answer").is_none());
    drop(guard);
    let guard = locks(&two).acquire_timeout(T).await.expect("an answer").expect("they are free");
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_zero_asks_nothing() {
    let (server, [client]) = setup().await;
    server.clear_records();
    let error = locks(&client).acquire_timeout(Duration::ZERO).await.expect_err("there is no time");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(requests(&server), [Operation::Create; 0]);
}

#[tokio::test(start_paused = true)]
async fn locks_of_several_kinds_are_one() {
    let (server, [one, two]) = setup().await;
    let both = |client| InterProcessReadWriteLock::new(client, PATHS[1]).expect("a good path");
    let locks = |client| {
        let mutex = mutex(client, PATHS[0]);
        InterProcessMultiLock::of([Lock::from(mutex), Lock::from(both(client).read())]).expect("good locks")
    };
    let reader = both(&two).read().acquire().await.expect("it reads");
    let guard = within("another reads, too", SOON, locks(&one).acquire()).await.expect("held");
    assert!(reader.is_held() && guard.is_held());
    assert!(both(&two).write().try_acquire().await.expect("an answer").is_none());
    assert!(locks(&two).try_acquire().await.expect("an answer").is_none(), "the mutex is held");
    drop((reader, guard));
    lines_have(&server, [0, 0, 0]).await;
}
