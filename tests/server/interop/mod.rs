//! One line for two libraries: kazoo's `Lock` (Python) and `InterProcessMutex` take turns at one path on a real server.
//! The same with its `ReadLock` and `WriteLock`. And a cache that follows what kazoo writes, and members of its
//! parties.
//!
//! Needs python3 and the feature `interop`; kazoo is installed from PyPI into a virtual environment below `target`.

#[cfg(feature = "cache")]
mod edits;
mod judge;
mod kazoo;
#[cfg(feature = "group-member")]
mod party;
#[cfg(feature = "read-write-lock")]
mod readers;

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::Client;
use zookeeper_recipes::mutex::InterProcessMutex;

use self::judge::{Judge, Report};
use self::kazoo::Kazoo;
use crate::support::{ZooKeeper, eventually, unique_path, within};

/// Contenders of each kind.
const EACH: usize = 4;
/// How often each of them gets the lock: more than 200 hand-overs in all.
const TURNS: usize = 30;
const PATIENCE: Duration = Duration::from_secs(120);

/// One contender of ours: tells the judge when it has the lock, and when it lets go.
async fn contend(connect_string: String, path: String, judge: Report) {
    let client = Client::builder(connect_string).session_timeout(Duration::from_secs(20)).connect();
    let client = client.await.expect("the client connects");
    let mutex = InterProcessMutex::builder(&client, path).also_count(["__lock__"]).build().expect("a mutex");
    for _ in 0..TURNS {
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
        ours.push(contend(server.connect_string(), path.clone(), report));
    }
    // Python is slow to start: without it ours would be through before.
    eventually("kazoo is there", PATIENCE, || async { judge.turns().iter().any(|turn| turn.is_kazoo) }).await;
    let all = async { tokio::join!(join_all(ours), join_all(kazoos.into_iter().map(Kazoo::ends))) };
    within("every participant has had all turns", PATIENCE, all).await;

    let turns = judge.turns();
    assert_eq!(turns.len(), 2 * EACH * TURNS, "every turn was seen");
    assert_eq!(judge.overlaps(), 0, "no participant entered while another was inside");
    let numbers: Vec<u32> = turns.iter().map(|turn| turn.number).collect();
    assert!(numbers.is_sorted(), "first come, first served: {numbers:?}");
    let between_kinds = turns.windows(2).filter(|pair| pair[0].is_kazoo != pair[1].is_kazoo).count();
    println!("{} turns, {between_kinds} hand-overs from one library to the other", turns.len());
    assert!(between_kinds >= EACH, "the two kinds took turns only {between_kinds} times");
}
