//! One line for two libraries: kazoo's `Lock` (Python) and `InterProcessMutex` take turns at one path on a real server.
//! The same with its `ReadLock` and `WriteLock`. And a cache that follows what kazoo writes, and members of its
//! parties. Then the locks again, and registered services, with Curator's own code in a JVM.
//!
//! Needs python3 and the feature `interop`; kazoo is installed from PyPI into a virtual environment below `target`. The
//! tests with Curator are ignored, as they need a JDK and its jars.

mod curator;
#[cfg(feature = "cache")]
mod edits;
mod judge;
mod kazoo;
#[cfg(feature = "partition-assigner")]
mod partitioner;
#[cfg(feature = "group-member")]
mod party;
mod python;
#[cfg(feature = "read-write-lock")]
mod readers;

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::Client;
use zookeeper_recipes::mutex::InterProcessMutex;

use self::judge::{Judge, Library, Report};
use self::kazoo::Kazoo;
use crate::support::{ZooKeeper, eventually, unique_path, within};

/// Contenders of each kind.
const EACH: usize = 4;
/// How often each of them gets the lock: more than 200 hand-overs in all.
const TURNS: usize = 30;
const PATIENCE: Duration = Duration::from_secs(120);

async fn connect(connect_string: String) -> Client {
    let client = Client::builder(connect_string).session_timeout(Duration::from_secs(20)).connect();
    client.await.expect("the client connects")
}

/// One contender of ours: tells the judge when it has the lock, and when it lets go.
async fn contend(connect_string: String, path: String, judge: Report, turns: usize) {
    let client = connect(connect_string).await;
    let mutex = InterProcessMutex::builder(&client, path).also_count(["__lock__"]).build().expect("a mutex");
    for _ in 0..turns {
        let guard = mutex.acquire().await.expect("the lock");
        judge.enter(guard.node_path()).await;
        judge.leave(guard.node_path()).await;
        guard.release().await.expect("released");
    }
    client.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_and_we_share_one_queue() {
    let server = ZooKeeper::shared().await;
    let path = unique_path("interop");
    let judge = Judge::start().await;
    let kazoos: Vec<Kazoo> =
        (0..EACH).map(|_| Kazoo::contend(&server.connect_string(), &path, judge.addr(), TURNS)).collect();
    let mut ours = Vec::new();
    for _ in 0..EACH {
        let report = Report::connect(judge.addr()).await;
        ours.push(contend(server.connect_string(), path.clone(), report, TURNS));
    }
    // Python is slow to start: without it ours would be through before.
    eventually("kazoo is there", PATIENCE, || async { judge.has_seen(Library::Kazoo) }).await;
    let all = async { tokio::join!(join_all(ours), join_all(kazoos.into_iter().map(Kazoo::ends))) };
    within("every participant has had all turns", PATIENCE, all).await;

    assert_eq!(judge.turns().len(), 2 * EACH * TURNS, "every turn was seen");
    judge.check();
    assert!(judge.between_libraries() >= EACH, "the two libraries took turns");
}
