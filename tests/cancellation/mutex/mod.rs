//! InterProcessMutex: acquiring, waiting, reading participants.

pub(crate) mod guard;

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_recipes::mutex::{Error, InterProcessMutex, MutexGuard, revoke};
use zookeeper_recipes::testing::Operation;
use zookeeper_recipes::{Client, ErrorKind};

use crate::harness::{Outage, Run, cases};

cases! {
    acquire: "InterProcessMutex::acquire", at least 170 drops, 130 faults;
    acquire_without_a_directory: "InterProcessMutex::acquire", at least 580 drops, 450 faults;
    acquire_with_its_mutex: "InterProcessMutex::acquire", at least 170 drops, 120 faults;
    acquire_behind_a_holder: "InterProcessMutex::acquire", at least 390 drops, 310 faults;
    acquire_for_a_holder_to_go: "InterProcessMutex::acquire", at least 450 drops, 330 faults;
    acquire_in_time: "InterProcessMutex::acquire_timeout", at least 170 drops, 130 faults;
    acquire_until_timeout: "InterProcessMutex::acquire_timeout", at least 510 drops, 400 faults;
    acquire_beyond_a_session: "InterProcessMutex::acquire_timeout", at least 370 drops, 90 faults;
    try_acquire: "InterProcessMutex::try_acquire", at least 170 drops, 130 faults;
    try_acquire_of_a_held_lock: "InterProcessMutex::try_acquire", at least 230 drops, 180 faults;
    participants: "InterProcessMutex::participants", at least 70 drops, 50 faults;
    revoke_a_holder: "mutex::revoke", at least 100 drops, 60 faults;
}

const LOCK: &str = "/lock";

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, LOCK).expect("a good path")
}

/// Acquires the lock, which is free.
async fn acquired(mutex: &InterProcessMutex) -> MutexGuard {
    mutex.acquire().await.expect("it is free")
}

/// Waits until exactly this many nodes remain.
async fn line_has(run: &Run, nodes: usize) {
    run.in_the_end("no other waiter is left", || run.server().children(LOCK).len() == nodes).await;
}

/// Acquires the lock, holds it and releases it, and checks that no node is left.
async fn works(run: &Run, mutex: &InterProcessMutex) {
    let guard = acquired(mutex).await;
    assert!(guard.is_held());
    guard.release().await.expect("it was held");
    line_has(run, 0).await;
}

async fn acquire(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    drop(run.cut(mutex.acquire()).await.done().map(|guard| guard.expect("it is free")));
    line_has(run, 0).await;
    works(run, &mutex).await;
}

async fn acquire_without_a_directory(run: &mut Run) {
    run.may_stay("/deep");
    run.may_stay("/deep/lock");
    let client = run.client().await;
    let mutex = InterProcessMutex::new(&client, "/deep/lock").expect("a good path");
    drop(run.cut(mutex.acquire()).await.done().map(|guard| guard.expect("it is free")));
    acquired(&mutex).await.release().await.expect("it was held");
}

/// The mutex is dropped with the future that waits.
async fn acquire_with_its_mutex(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let dropped = mutex(&client);
    let acquire = async move { dropped.acquire().await };
    drop(run.cut(acquire).await.done().map(|guard| guard.expect("it is free")));
    line_has(run, 0).await;
    works(run, &mutex(&client)).await;
}

/// Waits while another client holds the lock, and keeps holding it.
async fn acquire_behind_a_holder(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = acquired(&mutex(&other)).await;
    let watches = run.settled_watches().await;
    let mutex = mutex(&client);
    if let Some(waited) = run.cut(timeout(Duration::from_millis(500), mutex.acquire())).await.done() {
        waited.expect_err("another holds");
    }
    line_has(run, 1).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &mutex).await;
}

/// The call is dropped as it gets the lock, so that the lock must be passed on.
async fn acquire_for_a_holder_to_go(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let (mutex, other_mutex) = (mutex(&client), mutex(&other));
    let held = acquired(&other_mutex).await;
    let next = run.server().spawn(&other, async move {
        sleep(Duration::from_millis(70)).await;
        acquired(&other_mutex).await
    });
    run.later(&other, Duration::from_millis(140), move |_| drop(held));
    drop(run.cut(mutex.acquire()).await.done().map(|guard| guard.expect("its turn comes")));
    let next = next.await.expect("no panic");
    assert!(next.is_held());
    line_has(run, 1).await;
    next.release().await.expect("it was held");
    works(run, &mutex).await;
}

/// Returns the outcome of a call with a deadline, if it is known. Only after a fault may it be unknown.
fn known(run: &Run, brought: Result<Option<MutexGuard>, Error>) -> Option<Option<MutexGuard>> {
    match brought {
        Ok(guard) => Some(guard),
        Err(error) => {
            assert!(!run.is_calm() && error.kind() == ErrorKind::OutcomeUnknown, "{error}");
            None
        }
    }
}

async fn acquire_in_time(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    let cut = run.cut(mutex.acquire_timeout(Duration::from_secs(8))).await;
    if let Some(guard) = cut.done().and_then(|brought| known(run, brought)) {
        drop(guard.expect("it is free, and there is time"));
    }
    line_has(run, 0).await;
    works(run, &mutex).await;
}

async fn acquire_until_timeout(run: &mut Run) {
    let within = Duration::from_millis(500);
    of_a_held_lock(run, async |run, mutex| run.cut(mutex.acquire_timeout(within)).await.done()).await;
}

async fn try_acquire_of_a_held_lock(run: &mut Run) {
    of_a_held_lock(run, async |run, mutex| run.cut(mutex.try_acquire()).await.done()).await;
}

/// Another client holds the lock: the call returns `None` only when its own node is gone.
async fn of_a_held_lock(
    run: &mut Run,
    cut: impl AsyncFn(&mut Run, &InterProcessMutex) -> Option<Result<Option<MutexGuard>, Error>>,
) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = acquired(&mutex(&other)).await;
    let watches = run.settled_watches().await;
    let mutex = mutex(&client);
    if let Some(guard) = cut(run, &mutex).await.and_then(|brought| known(run, brought)) {
        assert!(guard.is_none(), "another holds");
        assert_eq!(run.server().children(LOCK).len(), 1);
    }
    line_has(run, 1).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &mutex).await;
}

/// The node is created, but the client does not know; then the client gives up its session, and the servers keep it.
async fn acquire_beyond_a_session(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    run.begin_outage(Outage::After(Operation::Create)).await;
    let cut = run.cut(mutex.acquire_timeout(Duration::from_millis(6_500))).await;
    if let Some(brought) = cut.done() {
        let kind = brought.expect_err("the outcome is unknown").kind();
        assert_eq!(kind, ErrorKind::OutcomeUnknown);
    }
    run.is_rid_of_all_it_had_in(LOCK).await;
    works(run, &mutex).await;
}

async fn try_acquire(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    let cut = run.cut(mutex.try_acquire()).await;
    if let Some(guard) = cut.done().and_then(|brought| known(run, brought)) {
        drop(guard.expect("it is free"));
    }
    line_has(run, 0).await;
    works(run, &mutex).await;
}

async fn participants(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let (looking, other_mutex) = (mutex(&client), mutex(&other));
    let held = acquired(&other_mutex).await;
    let waiting = run.server().spawn(&other, async move { acquired(&other_mutex).await });
    line_has(run, 2).await;
    // By then, all servers have both nodes.
    run.settled_watches().await;
    let mut seen = Vec::new();
    seen.extend(run.cut(looking.participants()).await.done());
    run.is_silent_if_calm().await;
    seen.push(looking.participants().await);
    for all in seen {
        let all = all.expect("a read is repeated");
        assert!(all.len() == 2 && all[0] == held.node_path(), "{all:?}");
    }
    drop(held);
    assert!(waiting.await.expect("no panic").is_held());
    works(run, &looking).await;
}

/// The mark is set or not; it does no harm to set it again.
async fn revoke_a_holder(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = acquired(&mutex(&other)).await;
    let done = run.cut(revoke(&client, held.node_path())).await.done();
    run.is_silent_if_calm().await;
    match (done, &*run.server().get(held.node_path()).expect("it is held")) {
        (Some(done), b"__REVOKE__") => done.expect("it is repeated"),
        (None, b"__REVOKE__") => assert!(run.is_polled()),
        (None, b"") => {}
        (done, data) => panic!("{done:?}, and the node holds {data:?}"),
    }
    revoke(&client, held.node_path()).await.expect("as often as one likes");
    assert_eq!(held.on_revoke().await, Ok(()));
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &mutex(&client)).await;
}
