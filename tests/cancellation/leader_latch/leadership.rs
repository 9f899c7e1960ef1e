//! The operations of a leadership.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zookeeper_recipes::{CreateMode, ErrorKind};

use super::{LINE, leader_of, leads};
use crate::harness::{Run, cases};

cases! {
    lost: "Leadership::lost", at least 90 drops, 60 faults;
    work: "Leadership::run", at least 100 drops, 70 faults;
    fenced_write: "Transaction::commit", at least 70 drops, 50 faults;
}

async fn lost(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let (latch, leadership) = leader_of(&client, "it").await;
    let node = latch.our_path().expect("a leader has a node");
    run.later(&client, Duration::from_millis(40), move |server| drop(server.delete_by_hand(&node)));
    if run.cut(leadership.lost()).await.done().is_some() {
        assert!(!leadership.is_held());
    }
    run.in_the_end("it is lost", || !leadership.is_held()).await;
    leadership.lost().await;
    assert!(leads(&latch).await.is_held());
}

/// Counts how often one of these is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The inner future is dropped with the call, and the leadership lasts.
async fn work(run: &mut Run) {
    run.directory(LINE);
    run.directory("/work");
    let client = run.client().await;
    let (latch, leadership) = leader_of(&client, "it").await;
    let dropped = Arc::new(AtomicUsize::new(0));
    let (mark, worker) = (Dropped(Arc::clone(&dropped)), client.clone());
    let work = async move {
        let _mark = mark;
        worker.set("/work", "1", None).await?;
        worker.set("/work", "2", None).await
    };
    if let Some(Ok(Err(error))) = run.cut(leadership.run(work)).await.done() {
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    run.is_silent_if_calm().await;
    assert!(leadership.is_held() || !run.is_calm());
    let again = leads(&latch).await;
    again.run(client.set("/work", "3", None)).await.expect("it leads").expect("it works again");
}

/// A fenced write never succeeds after another participant has become leader.
async fn fenced_write(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let (latch, leadership) = leader_of(&client, "it").await;
    let write = client.transaction().check(&leadership.fence()).create("/report", "42", CreateMode::Persistent);
    let done = run.cut(write.commit()).await.done();
    let written = run.server().get("/report").is_some();
    match done {
        Some(Ok(_)) => assert!(written),
        Some(Err(error)) => match error.kind() {
            ErrorKind::OutcomeUnknown => {}
            ErrorKind::Fenced | ErrorKind::SessionLost => assert!(!written && !run.is_calm()),
            _ => panic!("{error}"),
        },
        None => assert!(!written || run.is_polled()),
    }
    latch.close().await.expect("closed");
    run.in_the_end("no node of it is left", || run.server().children(LINE).is_empty()).await;
    let late = client.transaction().check(&leadership.fence()).create("/late", "", CreateMode::Persistent).commit();
    let refused = late.await.expect_err("there is no leader");
    assert!(matches!(refused.kind(), ErrorKind::Fenced | ErrorKind::SessionLost), "{refused}");
    if run.server().get("/report").is_some() {
        client.delete("/report", None).await.expect("it is there");
    }
}
