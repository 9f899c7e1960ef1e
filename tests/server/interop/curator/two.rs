//! One participant of each library: what a holder does to the other that waits.

use zookeeper_recipes::mutex::{self, InterProcessMutex};
use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;

use super::Curator;
use crate::fixture::Fixture;
use crate::interop::PATIENCE;
use crate::interop::judge::Judge;
use crate::support::{eventually, within};

/// A client of ours, and a participant of Curator.
async fn both(name: &str) -> (Fixture, Curator) {
    let fixture = Fixture::new(name).await;
    let judge = Judge::start().await;
    let curator = Curator::start(&fixture.server.connect_string(), judge.addr(), 1).await;
    (fixture, curator)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn a_reader_enters_when_a_writer_of_the_other_library_becomes_one() {
    let (fixture, mut curator) = both("curator-downgrade").await;
    let client = fixture.client().await;
    let lock = InterProcessReadWriteLock::new(&client, &fixture.path).expect("a lock");
    let two_wait = || async { lock.participants().await.expect("participants").len() == 2 };

    curator.ask(&format!("write {}", fixture.path)).await;
    let reader = lock.read();
    let reading = tokio::spawn(async move { reader.acquire().await });
    eventually("our reader waits", PATIENCE, two_wait).await;
    assert!(!reading.is_finished(), "a writer is before it");
    let theirs = curator.ask("downgrade").await;
    let ours = within("our reader enters", PATIENCE, reading).await.expect("no panic").expect("it reads");
    assert!(ours.is_held());
    assert!(lock.participants().await.expect("participants").contains(&theirs), "both read");
    assert_eq!(curator.ask("release").await, "ok");
    ours.release().await.expect("it was held");

    let writing = lock.write().acquire().await.expect("it writes");
    curator.tell(&format!("read {}", fixture.path)).await;
    eventually("Curator's reader waits", PATIENCE, two_wait).await;
    let ours = writing.downgrade().await.expect("it was held");
    let theirs = within("Curator's reader enters", PATIENCE, curator.answer()).await;
    assert!(lock.participants().await.expect("participants").contains(&theirs), "both read");
    assert!(ours.is_held());
    ours.release().await.expect("it was held");
    assert_eq!(curator.ask("release").await, "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn each_asks_the_other_to_release() {
    let (fixture, mut curator) = both("curator-revoke").await;
    let client = fixture.client().await;
    let lock = InterProcessMutex::new(&client, &fixture.path).expect("a mutex");

    let guard = lock.acquire().await.expect("the lock");
    assert_eq!(curator.ask(&format!("revoke {}", guard.node_path())).await, "ok");
    within("Curator's request comes", PATIENCE, guard.on_revoke()).await.expect("it is held");
    guard.release().await.expect("it was held");

    let node = curator.ask(&format!("revocable {}", fixture.path)).await;
    mutex::revoke(&client, &node).await.expect("asked");
    assert_eq!(within("our request comes", PATIENCE, curator.ask("revoked")).await, "ok");
    assert_eq!(curator.ask("release").await, "ok");
    within("the lock is free", PATIENCE, lock.acquire()).await.expect("the lock").release().await.expect("released");
}
