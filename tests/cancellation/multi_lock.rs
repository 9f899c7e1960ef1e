//! InterProcessMultiLock: acquiring, holding, releasing.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_recipes::multi_lock::{Error, InterProcessMultiLock, LockLost, MultiLockGuard};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::{Client, ErrorKind};

use crate::harness::{Outage, Run, cases};

cases! {
    acquire: "InterProcessMultiLock::acquire", at least 250 drops, 200 faults;
    acquire_behind_a_holder: "InterProcessMultiLock::acquire", at least 390 drops, 310 faults;
    acquire_in_time: "InterProcessMultiLock::acquire_timeout", at least 250 drops, 200 faults;
    acquire_until_timeout: "InterProcessMultiLock::acquire_timeout", at least 510 drops, 400 faults;
    try_acquire: "InterProcessMultiLock::try_acquire", at least 250 drops, 200 faults;
    try_acquire_of_a_held_lock: "InterProcessMultiLock::try_acquire", at least 250 drops, 200 faults;
    lost: "MultiLockGuard::lost", at least 100 drops, 50 faults;
    on_revoke: "MultiLockGuard::on_revoke", at least 100 drops, 50 faults;
    work: "MultiLockGuard::run", at least 70 drops, 40 faults;
    release: "MultiLockGuard::release", at least 100 drops, 80 faults;
    release_of_watched_locks: "MultiLockGuard::release", at least 80 drops, 50 faults;
    release_while_cut_off: "MultiLockGuard::release", at least 200 drops, 40 faults;
}

const PATHS: [&str; 2] = ["/a", "/b"];
/// Long enough for the watch of a node to be armed.
const A_WHILE: Duration = Duration::from_millis(100);

fn directories(run: &mut Run) {
    for path in PATHS {
        run.directory(path);
    }
}

fn locks(client: &Client) -> InterProcessMultiLock {
    InterProcessMultiLock::new(client, PATHS).expect("good paths")
}

async fn acquired(client: &Client) -> MultiLockGuard {
    locks(client).acquire().await.expect("they are to be had")
}

/// Acquires the second lock alone.
async fn second_held(client: &Client) -> zookeeper_recipes::mutex::MutexGuard {
    InterProcessMutex::new(client, PATHS[1]).expect("a good path").acquire().await.expect("it is free")
}

/// Waits until exactly this many nodes remain at each lock.
async fn lines_have(run: &Run, nodes: [usize; 2]) {
    run.in_the_end("no other waiter is left", || PATHS.map(|path| run.server().children(path).len()) == nodes).await;
}

/// Acquires the locks and releases them, and checks that no node is left.
async fn works(run: &Run, client: &Client) {
    let guard = acquired(client).await;
    assert!(guard.is_held());
    guard.release().await.expect("they were held");
    lines_have(run, [0, 0]).await;
}

async fn acquire(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let locks = locks(&client);
    drop(run.cut(locks.acquire()).await.done().map(|guard| guard.expect("they are free")));
    lines_have(run, [0, 0]).await;
    works(run, &client).await;
}

async fn acquire_behind_a_holder(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = second_held(&other).await;
    let watches = run.settled_watches().await;
    let locks = locks(&client);
    if let Some(waited) = run.cut(timeout(Duration::from_millis(500), locks.acquire())).await.done() {
        waited.expect_err("another holds");
    }
    lines_have(run, [0, 1]).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &client).await;
}

/// Returns the outcome of a call with a deadline, if it is known. Only after a fault may it be unknown or a timeout.
fn known(run: &Run, brought: Result<Option<MultiLockGuard>, Error>) -> Option<Option<MultiLockGuard>> {
    match brought {
        Ok(guard) => Some(guard),
        Err(error) => {
            let may = matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::TimedOut);
            assert!(!run.is_calm() && may, "{error}");
            None
        }
    }
}

async fn acquire_in_time(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let locks = locks(&client);
    let cut = run.cut(locks.acquire_timeout(Duration::from_secs(8))).await;
    if let Some(guard) = cut.done().and_then(|brought| known(run, brought)) {
        drop(guard.expect("they are free, and there is time"));
    }
    lines_have(run, [0, 0]).await;
    works(run, &client).await;
}

async fn acquire_until_timeout(run: &mut Run) {
    let within = Duration::from_millis(500);
    of_a_held_lock(run, async |run, locks| run.cut(locks.acquire_timeout(within)).await.done()).await;
}

async fn try_acquire_of_a_held_lock(run: &mut Run) {
    of_a_held_lock(run, async |run, locks| run.cut(locks.try_acquire()).await.done()).await;
}

/// Another client holds one lock: the call returns `None` only when none of its own nodes is left at any lock.
async fn of_a_held_lock(
    run: &mut Run,
    cut: impl AsyncFn(&mut Run, &InterProcessMultiLock) -> Option<Result<Option<MultiLockGuard>, Error>>,
) {
    directories(run);
    let client = run.client().await;
    let other = run.other_client().await;
    let held = second_held(&other).await;
    let watches = run.settled_watches().await;
    let brought = cut(run, &locks(&client)).await;
    if let Some(guard) = brought.and_then(|brought| known(run, brought)) {
        assert!(guard.is_none(), "another holds");
        assert_eq!(PATHS.map(|path| run.server().children(path).len()), [0, 1]);
    }
    lines_have(run, [0, 1]).await;
    run.only_watches_of_others_are_left(watches).await;
    assert!(held.is_held());
    held.release().await.expect("it was held");
    works(run, &client).await;
}

async fn try_acquire(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let locks = locks(&client);
    let cut = run.cut(locks.try_acquire()).await;
    if let Some(guard) = cut.done().and_then(|brought| known(run, brought)) {
        drop(guard.expect("they are free"));
    }
    lines_have(run, [0, 0]).await;
    works(run, &client).await;
}

async fn lost(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let guard = acquired(&client).await;
    let node = guard.node_paths().last().expect("two").to_owned();
    // The node may be gone by then.
    run.later(&client, Duration::from_millis(40), move |server| drop(server.delete_by_hand(&node)));
    if run.cut(guard.lost()).await.done().is_some() {
        assert!(!guard.is_held());
    }
    guard.lost().await;
    assert!(!guard.is_held());
    drop(guard);
    lines_have(run, [0, 0]).await;
    works(run, &client).await;
}

async fn on_revoke(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let guard = acquired(&client).await;
    let node = guard.node_paths().last().expect("two").to_owned();
    // The node may be gone by then.
    let mark = "__REVOKE__";
    run.later(&client, Duration::from_millis(40), move |server| drop(server.set_data_by_hand(&node, mark)));
    let asked = run.cut(guard.on_revoke()).await.done();
    for asked in asked.into_iter().chain([guard.on_revoke().await]) {
        assert!(asked == Ok(()) || asked == Err(LockLost) && !run.is_calm());
    }
    drop(guard);
    lines_have(run, [0, 0]).await;
    works(run, &client).await;
}

/// The guard is dropped with the work.
async fn work(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let guard = acquired(&client).await;
    if let Some(worked) = run.cut(async move { guard.run(sleep(A_WHILE)).await }).await.done() {
        assert!(worked.is_ok() || !run.is_calm());
    }
    lines_have(run, [0, 0]).await;
    works(run, &client).await;
}

async fn release(run: &mut Run) {
    are_released(run, false).await;
}

async fn release_of_watched_locks(run: &mut Run) {
    are_released(run, true).await;
}

async fn are_released(run: &mut Run, watched: bool) {
    directories(run);
    let client = run.client().await;
    let guard = acquired(&client).await;
    if watched {
        guard.run(sleep(A_WHILE)).await.expect("held");
    }
    match run.cut(guard.release()).await.done() {
        None => {}
        Some(Ok(())) => assert_eq!(PATHS.map(|path| run.server().children(path).len()), [0, 0]),
        Some(Err(error)) => assert!(error.kind() == ErrorKind::SessionLost && !run.keeps_its_session(), "{error}"),
    }
    lines_have(run, [0, 0]).await;
    works(run, &client).await;
}

/// The session is given up before the nodes are deleted: the next session still deletes them.
async fn release_while_cut_off(run: &mut Run) {
    directories(run);
    let client = run.client().await;
    let guard = acquired(&client).await;
    run.begin_outage(Outage::Refused).await;
    if let Some(released) = run.cut(guard.release()).await.done() {
        assert_eq!(released.expect_err("there is no reply").kind(), ErrorKind::SessionLost);
    }
    for path in PATHS {
        run.is_rid_of_all_it_had_in(path).await;
    }
    works(run, &client).await;
}
