//! Many participants of both libraries in one line, seen from outside.

use futures::future::join_all;
use zookeeper_recipes::CreateMode;

use super::Curator;
use crate::interop::judge::{Judge, Library, Report};
use crate::interop::{EACH, PATIENCE, connect, contend};
use crate::support::{ZooKeeper, eventually, unique_path, within};

/// How often each participant has the lock.
const TURNS: usize = 60;

/// Plays Curator's participants in these lines, and ours beside them. Returns the judge when all had their turns.
async fn together<F>(recipe: &str, paths: &[String], ours: impl Fn(String, Report) -> F) -> Judge
where
    F: Future<Output = ()>,
{
    let server = ZooKeeper::shared().await;
    // Where a server removes a directory that is empty for a moment, the numbers begin again.
    let client = connect(server.connect_string()).await;
    for path in paths {
        client.create(path, "", CreateMode::Persistent).await.expect("created");
    }
    client.close().await.expect("closed");
    let judge = Judge::start().await;
    let mut curator = Curator::start(&server.connect_string(), judge.addr(), EACH).await;
    curator.tell(&format!("{recipe} {TURNS} {}", paths.join(" "))).await;
    // A JVM is slow at first: without it ours would be through before.
    eventually("Curator is there", PATIENCE, || async { judge.has_seen(Library::Curator) }).await;
    let mut participants = Vec::new();
    for _ in 0..EACH {
        participants.push(ours(server.connect_string(), Report::connect(judge.addr()).await));
    }
    let all = async { tokio::join!(join_all(participants), curator.answer()) };
    let (_, answer) = within("every participant has had all turns", PATIENCE, all).await;
    assert_eq!(answer, "done");
    assert!(judge.between_libraries() >= EACH, "the two libraries took turns");
    judge
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn mutexes() {
    let path = unique_path("curator-mutex");
    let paths = [path.clone()];
    let judge = together("mutex", &paths, |connect, report| contend(connect, path.clone(), report, TURNS)).await;
    assert_eq!(judge.turns().len(), 2 * EACH * TURNS, "every turn was seen");
    judge.check();
}

#[cfg(feature = "read-write-lock")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn readers_and_writers() {
    use crate::interop::readers::read_and_write;
    let path = unique_path("curator-read-write");
    let paths = [path.clone()];
    let judge =
        together("read-write", &paths, |connect, report| read_and_write(connect, path.clone(), report, TURNS)).await;
    judge.check();
    let by = |library| judge.turns().iter().filter(|turn| turn.by == library).count();
    assert!(by(Library::Ours) > EACH * TURNS, "some writers became readers");
    assert!(by(Library::Curator) >= EACH * TURNS, "every turn was seen");
    assert!(judge.most_together() > 1, "readers were together");
    println!("{} writers of Curator became readers", by(Library::Curator) - EACH * TURNS);
}

#[cfg(feature = "multi-lock")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn multi_locks() {
    use zookeeper_recipes::multi_lock::InterProcessMultiLock;

    async fn contend_for_all(connect_string: String, paths: [String; 2], judge: Report) {
        let client = connect(connect_string).await;
        let locks = InterProcessMultiLock::new(&client, paths).expect("a lock");
        for _ in 0..TURNS {
            let guard = locks.acquire().await.expect("all locks");
            for node in guard.node_paths() {
                judge.enter(node).await;
            }
            for node in guard.node_paths() {
                judge.leave(node).await;
            }
            guard.release().await.expect("released");
        }
        client.close().await.expect("closed");
    }

    let paths = ["one", "two"].map(|name| unique_path(&format!("curator-multi-{name}")));
    let judge = together("multi", &paths, |connect, report| contend_for_all(connect, paths.clone(), report)).await;
    assert_eq!(judge.turns().len(), 2 * 2 * EACH * TURNS, "every turn at each lock was seen");
    judge.check();
}

#[cfg(feature = "semaphore")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn semaphores() {
    use std::time::Duration;

    use zookeeper_recipes::semaphore::InterProcessSemaphore;

    /// As many as the peer names.
    const LEASES: u32 = 3;

    async fn contend_for_one(connect_string: String, path: String, judge: Report) {
        let client = connect(connect_string).await;
        let semaphore = InterProcessSemaphore::new(&client, path, LEASES).expect("a semaphore");
        for _ in 0..TURNS {
            let guard = semaphore.acquire(1).await.expect("a permit");
            let node = guard.node_paths().next().expect("one lease");
            judge.enter(node).await;
            // Longer than it takes to acquire, so that all leases are held at times.
            tokio::time::sleep(Duration::from_millis(20)).await;
            judge.leave(node).await;
            guard.release().await.expect("released");
        }
        client.close().await.expect("closed");
    }

    let path = unique_path("curator-semaphore");
    let paths = [path.clone()];
    let judge = together("semaphore", &paths, |connect, report| contend_for_one(connect, path.clone(), report)).await;
    assert_eq!(judge.turns().len(), 2 * EACH * TURNS, "every turn was seen");
    judge.check();
    assert_eq!(judge.most_together(), LEASES as usize, "as many held together as there are leases");
}
