//! InterProcessReadWriteLock: acquiring, waiting, reading participants.

pub(crate) mod guard;

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_recipes::read_write_lock::{Error, InterProcessReadWriteLock, ReadGuard, WriteGuard, revoke};
use zookeeper_recipes::{Client, ErrorKind};

use crate::harness::{Run, cases};

cases! {
    read: "ReadLock::acquire", at least 170 drops, 130 faults;
    read_beside_a_reader: "ReadLock::acquire", at least 170 drops, 130 faults;
    read_behind_a_writer: "ReadLock::acquire", at least 390 drops, 310 faults;
    read_when_a_writer_goes: "ReadLock::acquire", at least 390 drops, 300 faults;
    read_in_time: "ReadLock::acquire_timeout", at least 170 drops, 130 faults;
    try_read: "ReadLock::try_acquire", at least 170 drops, 130 faults;
    write: "WriteLock::acquire", at least 170 drops, 130 faults;
    write_behind_a_reader: "WriteLock::acquire", at least 390 drops, 310 faults;
    write_until_timeout: "WriteLock::acquire_timeout", at least 510 drops, 400 faults;
    try_write_beside_a_reader: "WriteLock::try_acquire", at least 230 drops, 180 faults;
    participants: "InterProcessReadWriteLock::participants", at least 70 drops, 50 faults;
    revoke_a_reader: "read_write_lock::revoke", at least 100 drops, 60 faults;
}

const LOCK: &str = "/lock";

fn lock(client: &Client) -> InterProcessReadWriteLock {
    InterProcessReadWriteLock::new(client, LOCK).expect("a good path")
}

async fn reading(client: &Client) -> ReadGuard {
    lock(client).read().acquire().await.expect("it is to be had")
}

async fn writing(client: &Client) -> WriteGuard {
    lock(client).write().acquire().await.expect("it is to be had")
}

/// Waits until exactly this many nodes remain.
async fn line_has(run: &Run, nodes: usize) {
    run.in_the_end("no other waiter is left", || run.server().children(LOCK).len() == nodes).await;
}

/// Writes, reads and releases, and checks that no node is left.
async fn works(run: &Run, client: &Client) {
    let guard = writing(client).await;
    assert!(guard.is_held());
    let guard = guard.downgrade().await.expect("it was held");
    guard.release().await.expect("it was held");
    line_has(run, 0).await;
}

async fn read(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let read = lock(&client).read();
    drop(run.cut(read.acquire()).await.done().map(|guard| guard.expect("it is free")));
    line_has(run, 0).await;
    works(run, &client).await;
}

async fn read_beside_a_reader(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = reading(&other).await;
    let read = lock(&client).read();
    drop(run.cut(read.acquire()).await.done().map(|guard| guard.expect("it is free")));
    line_has(run, 1).await;
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &client).await;
}

async fn read_behind_a_writer(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = writing(&other).await;
    let watches = run.settled_watches().await;
    let read = lock(&client).read();
    if let Some(waited) = run.cut(timeout(Duration::from_millis(500), read.acquire())).await.done() {
        waited.expect_err("another writes");
    }
    line_has(run, 1).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &client).await;
}

/// The call is dropped as it gets the lock, so that the lock must be passed on.
async fn read_when_a_writer_goes(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = writing(&other).await;
    let (read, next) = (lock(&client).read(), lock(&other).write());
    let next = run.server().spawn(&other, async move {
        sleep(Duration::from_millis(70)).await;
        next.acquire().await.expect("its turn comes")
    });
    run.later(&other, Duration::from_millis(140), move |_| drop(held));
    drop(run.cut(read.acquire()).await.done().map(|guard| guard.expect("its turn comes")));
    let next = next.await.expect("no panic");
    assert!(next.is_held());
    line_has(run, 1).await;
    next.release().await.expect("it was held");
    works(run, &client).await;
}

/// Returns the outcome of a call with a deadline, if it is known. Only after a fault may it be unknown.
fn known<G>(run: &Run, brought: Result<Option<G>, Error>) -> Option<Option<G>> {
    match brought {
        Ok(guard) => Some(guard),
        Err(error) => {
            assert!(!run.is_calm() && error.kind() == ErrorKind::OutcomeUnknown, "{error}");
            None
        }
    }
}

async fn read_in_time(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let read = lock(&client).read();
    let cut = run.cut(read.acquire_timeout(Duration::from_secs(8))).await;
    if let Some(guard) = cut.done().and_then(|brought| known(run, brought)) {
        drop(guard.expect("it is free, and there is time"));
    }
    line_has(run, 0).await;
    works(run, &client).await;
}

async fn try_read(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let read = lock(&client).read();
    let cut = run.cut(read.try_acquire()).await;
    if let Some(guard) = cut.done().and_then(|brought| known(run, brought)) {
        drop(guard.expect("it is free"));
    }
    line_has(run, 0).await;
    works(run, &client).await;
}

async fn write(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let write = lock(&client).write();
    drop(run.cut(write.acquire()).await.done().map(|guard| guard.expect("it is free")));
    line_has(run, 0).await;
    works(run, &client).await;
}

async fn write_behind_a_reader(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = reading(&other).await;
    let watches = run.settled_watches().await;
    let write = lock(&client).write();
    if let Some(waited) = run.cut(timeout(Duration::from_millis(500), write.acquire())).await.done() {
        waited.expect_err("another reads");
    }
    line_has(run, 1).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &client).await;
}

async fn write_until_timeout(run: &mut Run) {
    let within = Duration::from_millis(500);
    beside_a_reader(run, async |run, lock| {
        let write = lock.write();
        run.cut(write.acquire_timeout(within)).await.done()
    })
    .await;
}

async fn try_write_beside_a_reader(run: &mut Run) {
    beside_a_reader(run, async |run, lock| {
        let write = lock.write();
        run.cut(write.try_acquire()).await.done()
    })
    .await;
}

/// Another client reads: the call returns `None` only when its own node is gone.
async fn beside_a_reader(
    run: &mut Run,
    cut: impl AsyncFn(&mut Run, &InterProcessReadWriteLock) -> Option<Result<Option<WriteGuard>, Error>>,
) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = reading(&other).await;
    let watches = run.settled_watches().await;
    let brought = cut(run, &lock(&client)).await;
    if let Some(guard) = brought.and_then(|brought| known(run, brought)) {
        assert!(guard.is_none(), "another reads");
        assert_eq!(run.server().children(LOCK).len(), 1);
    }
    line_has(run, 1).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &client).await;
}

async fn participants(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = [reading(&other).await, reading(&other).await];
    // By then, all servers have the nodes.
    run.settled_watches().await;
    let looking = lock(&client);
    let mut seen = Vec::new();
    seen.extend(run.cut(looking.participants()).await.done());
    run.is_silent_if_calm().await;
    seen.push(looking.participants().await);
    for all in seen {
        assert_eq!(all.expect("a read is repeated"), [held[0].node_path(), held[1].node_path()]);
    }
    drop(held);
    works(run, &client).await;
}

/// The mark is set or not; it does no harm to set it again.
async fn revoke_a_reader(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = reading(&other).await;
    if let Some(done) = run.cut(revoke(&client, held.node_path())).await.done() {
        done.expect("it is repeated");
    }
    run.is_silent_if_calm().await;
    revoke(&client, held.node_path()).await.expect("as often as one likes");
    assert_eq!(held.on_revoke().await, Ok(()));
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &client).await;
}
