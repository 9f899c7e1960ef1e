//! Sessions that end, while holding and while waiting.

use std::time::Duration;

use zookeeper_recipes::read_write_lock::Error;
use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::{Fixture, SOON, lock, reading, within, writing};
use crate::support::{Fault, unique_path};

const SESSION: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_whose_session_is_killed_is_told_and_its_fenced_write_is_refused() {
    let fixture = Fixture::with_directory("read-write-killed").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
    let report = unique_path("report");
    fixture.observer.create(&report, b"").await;
    let writer = writing(&lock(&client, &fixture.path)).await;
    let other = lock(&fixture.client().await, &fixture.path);
    let waiting = {
        let read = other.read();
        tokio::spawn(async move { read.acquire().await.expect("it reads") })
    };
    fixture.observer.wait_for_children(&fixture.path, 2).await;
    let write = client.transaction().check(&writer.fence()).set_data(&report, b"held", None);
    write.commit().await.expect("a holder writes");
    proxy.kill_session().await;
    let reader = within("its turn comes", SOON, waiting).await.expect("no panic");
    assert!(reader.fencing_token() > writer.fencing_token());
    let late = client.transaction().check(&writer.fence()).set_data(&report, b"late", None);
    let refused = late.commit().await.expect_err("its session is over");
    assert!(
        matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Fenced | ErrorKind::OutcomeUnknown),
        "{refused}"
    );
    proxy.cut().await;
    within("it is told", SOON, writer.lost()).await;
    assert!(!writer.is_held());
    assert_eq!(fixture.observer.data(&report).await.as_deref(), Some(&b"held"[..]));
    let error = within("it is over", SOON, writer.release()).await.expect_err("it was lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    reader.release().await.expect("it was held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_cut_off_says_no_before_a_writer_holds() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let fixture = Fixture::with_directory("read-write-cut-off").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, policy).await;
        let reader = std::sync::Arc::new(reading(&lock(&client, &fixture.path)).await);
        let other = lock(&fixture.client().await, &fixture.path);
        let waiting = {
            let reader = std::sync::Arc::clone(&reader);
            // Asked at the very moment at which the writer holds, in the same task.
            tokio::spawn(async move {
                let writer = other.write().acquire().await.expect("it writes");
                (reader.is_held(), writer)
            })
        };
        fixture.observer.wait_for_children(&fixture.path, 2).await;
        proxy.set(Fault::BlackHole).await;
        let (believed, writer) = within("its turn comes", SOON, waiting).await.expect("no panic");
        assert!(!believed, "{policy:?}: a reader beside a writer");
        assert!(writer.is_held() && !reader.is_held());
        proxy.set(Fault::Pass).await;
    }
}
