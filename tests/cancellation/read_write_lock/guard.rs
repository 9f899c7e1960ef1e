//! The operations of the guards of a read-write lock.

use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::read_write_lock::{Error, LockLost};

use super::{LOCK, line_has, reading, works, writing};
use crate::harness::{Outage, Run, cases};

cases! {
    reader_lost: "ReadGuard::lost", at least 100 drops, 50 faults;
    reader_on_revoke: "ReadGuard::on_revoke", at least 120 drops, 70 faults;
    reader_works: "ReadGuard::run", at least 70 drops, 40 faults;
    reader_release: "ReadGuard::release", at least 100 drops, 80 faults;
    writer_lost: "WriteGuard::lost", at least 100 drops, 50 faults;
    writer_on_revoke: "WriteGuard::on_revoke", at least 120 drops, 70 faults;
    writer_works: "WriteGuard::run", at least 70 drops, 40 faults;
    writer_release: "WriteGuard::release", at least 100 drops, 80 faults;
    downgrade: "WriteGuard::downgrade", at least 80 drops, 60 faults;
    downgrade_of_a_watched_lock: "WriteGuard::downgrade", at least 80 drops, 50 faults;
    downgrade_with_others_behind: "WriteGuard::downgrade", at least 80 drops, 50 faults;
    downgrade_while_cut_off: "WriteGuard::downgrade", at least 60 drops, 10 faults;
}

/// Long enough for the watch of a node to be armed.
const A_WHILE: Duration = Duration::from_millis(100);

/// The scenarios that both guards share.
macro_rules! of_both {
    ($holding:ident, $lost:ident, $on_revoke:ident, $works:ident, $release:ident) => {
        async fn $lost(run: &mut Run) {
            run.directory(LOCK);
            let client = run.client().await;
            let guard = $holding(&client).await;
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
            works(run, &client).await;
        }

        async fn $on_revoke(run: &mut Run) {
            run.directory(LOCK);
            let client = run.client().await;
            let guard = $holding(&client).await;
            let node = guard.node_path().to_owned();
            // The node may be gone by then.
            let mark = "__REVOKE__";
            run.later(&client, Duration::from_millis(40), move |server| drop(server.set_data_by_hand(&node, mark)));
            let asked = run.cut(guard.on_revoke()).await.done();
            for asked in asked.into_iter().chain([guard.on_revoke().await]) {
                assert!(asked == Ok(()) || asked == Err(LockLost) && !run.is_calm());
            }
            drop(guard);
            line_has(run, 0).await;
            works(run, &client).await;
        }

        /// The guard is dropped with the work.
        async fn $works(run: &mut Run) {
            run.directory(LOCK);
            let client = run.client().await;
            let guard = $holding(&client).await;
            if let Some(worked) = run.cut(async move { guard.run(sleep(A_WHILE)).await }).await.done() {
                assert!(worked.is_ok() || !run.is_calm());
            }
            line_has(run, 0).await;
            works(run, &client).await;
        }

        async fn $release(run: &mut Run) {
            run.directory(LOCK);
            let client = run.client().await;
            let guard = $holding(&client).await;
            match run.cut(guard.release()).await.done() {
                None => {}
                Some(Ok(())) => assert_eq!(run.server().children(LOCK), [""; 0]),
                Some(Err(error)) => {
                    assert!(error.kind() == ErrorKind::SessionLost && !run.keeps_its_session(), "{error}");
                }
            }
            line_has(run, 0).await;
            works(run, &client).await;
        }
    };
}

of_both!(reading, reader_lost, reader_on_revoke, reader_works, reader_release);
of_both!(writing, writer_lost, writer_on_revoke, writer_works, writer_release);

async fn downgrade(run: &mut Run) {
    is_downgraded(run, false).await;
}

async fn downgrade_of_a_watched_lock(run: &mut Run) {
    is_downgraded(run, true).await;
}

/// Checks that one node of the reader is left, or none at all.
async fn is_downgraded(run: &mut Run, watched: bool) {
    run.directory(LOCK);
    let client = run.client().await;
    let guard = writing(&client).await;
    if watched {
        guard.run(sleep(A_WHILE)).await.expect("held");
    }
    match run.cut(guard.downgrade()).await.done() {
        None => {}
        Some(Ok(guard)) => {
            assert_eq!(run.server().children(LOCK).len(), 1);
            drop(guard);
        }
        Some(Err(error)) => assert!(matches!(error, Error::Lost { .. }) && !run.is_calm(), "{error}"),
    }
    line_has(run, 0).await;
    works(run, &client).await;
}

/// Whatever the outcome, those behind get their turn.
async fn downgrade_with_others_behind(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let other = run.other_client().await;
    let guard = writing(&client).await;
    let (reads, writes) = (super::lock(&other).read(), super::lock(&other).write());
    let next = run.server().spawn(&other, async move { drop(writes.acquire().await.expect("its turn comes")) });
    line_has(run, 2).await;
    let last = run.server().spawn(&other, async move { drop(reads.acquire().await.expect("its turn comes")) });
    line_has(run, 3).await;
    if let Some(Ok(guard)) = run.cut(guard.downgrade()).await.done() {
        drop(guard);
    }
    next.await.expect("no panic");
    last.await.expect("no panic");
    line_has(run, 0).await;
    works(run, &client).await;
}

/// The call is dropped before its session is known to be lost, or fails with it.
async fn downgrade_while_cut_off(run: &mut Run) {
    run.directory(LOCK);
    let client = run.client().await;
    let guard = writing(&client).await;
    run.begin_outage(Outage::Refused).await;
    if let Some(downgraded) = run.cut(guard.downgrade()).await.done() {
        assert!(matches!(downgraded, Err(Error::Lost { .. })));
    }
    run.is_rid_of_all_it_had_in(LOCK).await;
    works(run, &client).await;
}
