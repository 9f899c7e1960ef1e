//! Readers and writers of kazoo and ours at one path.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;

use super::judge::{Judge, Library, Report};
use super::kazoo::Kazoo;
use super::{EACH, PATIENCE, TURNS, connect};
use crate::support::{ZooKeeper, eventually, unique_path, within};

/// One of ours: reads three times of four, and writes otherwise. Every other writer becomes a reader.
pub(super) async fn read_and_write(connect_string: String, path: String, judge: Report, turns: usize) {
    let client = connect(connect_string).await;
    let lock = InterProcessReadWriteLock::builder(&client, path);
    let lock = lock.also_count_readers(["__rlock__"]).also_count_writers(["__lock__"]).build().expect("a lock");
    for turn in 0..turns {
        if turn % 4 != 3 {
            let guard = lock.read().acquire().await.expect("it reads");
            judge.enter(guard.node_path()).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
            judge.leave(guard.node_path()).await;
            guard.release().await.expect("it was held");
            continue;
        }
        let guard = lock.write().acquire().await.expect("it writes");
        judge.enter(guard.node_path()).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        judge.leave(guard.node_path()).await;
        if turn % 8 == 3 {
            guard.release().await.expect("it was held");
            continue;
        }
        let guard = guard.downgrade().await.expect("it reads");
        judge.enter(guard.node_path()).await;
        judge.leave(guard.node_path()).await;
        guard.release().await.expect("it was held");
    }
    client.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoos_readers_and_writers_and_ours_share_one_queue() {
    let server = ZooKeeper::shared().await;
    let path = unique_path("interop-readers");
    let judge = Judge::start().await;
    let kazoos: Vec<Kazoo> =
        (0..EACH).map(|_| Kazoo::read_and_write(&server.connect_string(), &path, judge.addr(), TURNS)).collect();
    // Python is slow to start: without it ours would be through before.
    eventually("kazoo is there", PATIENCE, || async { judge.has_seen(Library::Kazoo) }).await;
    let mut ours = Vec::new();
    for _ in 0..EACH {
        let report = Report::connect(judge.addr()).await;
        ours.push(read_and_write(server.connect_string(), path.clone(), report, TURNS));
    }
    let all = async { tokio::join!(join_all(ours), join_all(kazoos.into_iter().map(Kazoo::ends))) };
    within("every participant has had all turns", PATIENCE, all).await;

    judge.check();
    assert!(judge.most_together() > 1, "readers were together");
    assert!(judge.between_libraries() >= EACH, "the two libraries took turns");
}
