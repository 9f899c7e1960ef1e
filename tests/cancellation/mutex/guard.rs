//! The operations of a mutex guard.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::mutex::{Error, LockLost};

use super::{LOCK, acquired, line_has, mutex, works};
use crate::harness::{Outage, Run, cases};

cases! {
    lost: "MutexGuard::lost", at least 100 drops, 50 faults;
    on_revoke: "MutexGuard::on_revoke", at least 120 drops, 70 faults;
    work: "MutexGuard::run", at least 110 drops, 70 faults;
    work_with_its_guard: "MutexGuard::run", at least 70 drops, 40 faults;
    work_with_its_guard_while_cut_off: "MutexGuard::run", at least 60 drops, 10 faults;
    release: "MutexGuard::release", at least 100 drops, 80 faults;
    release_of_a_watched_lock: "MutexGuard::release", at least 80 drops, 50 faults;
    release_of_one_of_two: "MutexGuard::release", at least 10 drops, 5 faults;
    release_while_cut_off: "MutexGuard::release", at least 250 drops, 40 faults;
    release_of_a_watched_lock_while_cut_off: "MutexGuard::release", at least 220 drops, 30 faults;
    release_while_all_is_slow: "MutexGuard::release", at least 210 drops, 90 faults;
    release_of_a_watched_lock_while_all_is_slow: "MutexGuard::release", at least 220 drops, 90 faults;
}

/// Long enough for the watch of a node to be armed.
const A_WHILE: Duration = Duration::from_millis(100);

async fn lost(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    let guard = acquired(&mutex).await;
    let node = guard.node_path().to_owned();
    // The node may be gone by then.
    run.later(&client, Duration::from_millis(40), move |server| drop(server.delete_by_hand(&node)));
    if run.cut(guard.lost()).await.done().is_some() {
        assert!(!guard.is_held());
    }
    guard.lost().await;
    assert!(!guard.is_held());
    line_has(run, 0).await;
    drop(guard);
    works(run, &mutex).await;
}

/// Checks that the release of a lost lock reports the loss, and that a held one is released unless its session ends.
fn is_let_go(run: &Run, held: bool, released: Result<(), Error>) {
    match released {
        Ok(()) => assert!(held),
        Err(Error::Lost { .. }) => assert!(!held && !run.is_calm()),
        Err(error) => assert!(held && !run.keeps_its_session(), "{error}"),
    }
}

async fn on_revoke(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    let guard = acquired(&mutex).await;
    let node = guard.node_path().to_owned();
    // The node may be gone by then.
    let mark = "__REVOKE__";
    run.later(&client, Duration::from_millis(40), move |server| drop(server.set_data_by_hand(&node, mark)));
    let asked = run.cut(guard.on_revoke()).await.done();
    for asked in asked.into_iter().chain([guard.on_revoke().await]) {
        assert!(asked == Ok(()) || asked == Err(LockLost) && !run.is_calm());
    }
    let held = guard.is_held();
    is_let_go(run, held, guard.release().await);
    works(run, &mutex).await;
}

/// Counts how often one of these is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The inner future is dropped with the call, and the lock stays held.
async fn work(run: &mut Run) {
    run.directory(LOCK);
    run.directory("/work");
    let client = run.client().await;
    let mutex = mutex(&client);
    let guard = acquired(&mutex).await;
    let dropped = Arc::new(AtomicUsize::new(0));
    let (mark, worker) = (Dropped(Arc::clone(&dropped)), client.clone());
    let work = async move {
        let _mark = mark;
        worker.set("/work", "1", None).await?;
        worker.set("/work", "2", None).await
    };
    if let Some(Ok(Err(error))) = run.cut(guard.run(work)).await.done() {
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let worked = guard.run(sleep(A_WHILE)).await;
    assert!(worked.is_ok() && guard.is_held() || !run.is_calm());
    drop(guard);
    line_has(run, 0).await;
    works(run, &mutex).await;
}

/// The guard is dropped with the work.
async fn work_with_its_guard(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    let guard = acquired(&mutex).await;
    if let Some(worked) = run.cut(async move { guard.run(sleep(A_WHILE)).await }).await.done() {
        assert!(worked.is_ok() || !run.is_calm());
    }
    line_has(run, 0).await;
    works(run, &mutex).await;
}

/// The work is dropped before its session is known to be lost, or as soon as it is.
async fn work_with_its_guard_while_cut_off(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    let guard = acquired(&mutex).await;
    run.begin_outage(Outage::Refused).await;
    if let Some(worked) = run.cut(async move { guard.run(pending::<()>()).await }).await.done() {
        assert_eq!(worked, Err(LockLost));
    }
    run.is_rid_of_all_it_had_in(LOCK).await;
    works(run, &mutex).await;
}

async fn release(run: &mut Run) {
    is_released(run, false).await;
}

async fn release_of_a_watched_lock(run: &mut Run) {
    is_released(run, true).await;
}

/// Checks that the lock is released, whether the call was polled or not, and that the next waiter then holds.
async fn is_released(run: &mut Run, watched: bool) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let mutexes = [mutex(&client), mutex(&other)];
    let guard = acquired(&mutexes[0]).await;
    if watched {
        guard.run(sleep(A_WHILE)).await.expect("held");
    }
    if let Some(released) = run.cut(guard.release()).await.done() {
        match released {
            Ok(()) => assert_eq!(run.server().children(LOCK), [""; 0]),
            Err(error) => assert!(error.kind() == ErrorKind::SessionLost && !run.keeps_its_session(), "{error}"),
        }
    }
    for mutex in mutexes.iter().rev() {
        works(run, mutex).await;
    }
}

/// The other guard keeps holding.
async fn release_of_one_of_two(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    let first = acquired(&mutex).await;
    let second = first.reenter().expect("it is held");
    if let Some(released) = run.cut(second.release()).await.done() {
        assert!(released.is_ok() || !run.is_calm(), "there is nothing to do");
    }
    run.is_silent_if_calm().await;
    let held = first.is_held();
    is_let_go(run, held, first.release().await);
    works(run, &mutex).await;
}

async fn release_while_cut_off(run: &mut Run) {
    is_released_beyond_its_session(run, Outage::Refused, false).await;
}

async fn release_of_a_watched_lock_while_cut_off(run: &mut Run) {
    is_released_beyond_its_session(run, Outage::Refused, true).await;
}

async fn release_while_all_is_slow(run: &mut Run) {
    is_released_beyond_its_session(run, Outage::Slow, false).await;
}

async fn release_of_a_watched_lock_while_all_is_slow(run: &mut Run) {
    is_released_beyond_its_session(run, Outage::Slow, true).await;
}

/// The session is given up before the node is deleted: the next session still deletes it.
async fn is_released_beyond_its_session(run: &mut Run, outage: Outage, watched: bool) {
    run.directory(LOCK);
    let client = run.client().await;
    let mutex = mutex(&client);
    let guard = acquired(&mutex).await;
    if watched {
        guard.run(sleep(A_WHILE)).await.expect("held");
    }
    run.begin_outage(outage).await;
    if let Some(released) = run.cut(guard.release()).await.done() {
        assert_eq!(released.expect_err("there is no reply").kind(), ErrorKind::SessionLost);
    }
    run.is_rid_of_all_it_had_in(LOCK).await;
    works(run, &mutex).await;
}
