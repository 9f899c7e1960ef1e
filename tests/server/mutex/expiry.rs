//! Sessions that end, while holding and while waiting.

use std::time::Duration;

use zookeeper_recipes::mutex::Error;
use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::{Fixture, SOON, States, Waiting, acquired, mutex, released};
use crate::support::{Fault, unique_path, within};

const SESSION: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_session_is_killed_is_told_and_its_fenced_write_is_refused_but_not_its_unfenced() {
    let fixture = Fixture::with_directory("killed").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
    let report = unique_path("report");
    fixture.observer.create(&report, b"").await;
    let lock = mutex(&client, &fixture.path);
    let guard = acquired(&lock).await;
    let waiting = Waiting::behind(&fixture, &mutex(&fixture.client().await, &fixture.path), 1).await;
    let write = client.transaction().check(&guard.fence()).set_data(&report, b"held", None);
    write.commit().await.expect("a holder writes");

    proxy.kill_session().await;
    let next = waiting.turn().await;
    assert!(next.fencing_token() > guard.fencing_token());
    let late = client.transaction().check(&guard.fence()).set_data(&report, b"late", None);
    let refused = late.commit().await.expect_err("its session is over");
    assert!(
        matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Fenced | ErrorKind::OutcomeUnknown),
        "{refused}"
    );
    proxy.cut().await;
    within("it is told", SOON, guard.lost()).await;
    assert!(!guard.is_held() && guard.reenter().is_err());
    assert_eq!(fixture.observer.data(&report).await.as_deref(), Some(&b"held"[..]));
    client.set(&report, "late", None).await.expect("nothing stops a write without a fence");
    assert_eq!(fixture.observer.data(&report).await.as_deref(), Some(&b"late"[..]));
    let error = within("it is over", SOON, guard.release()).await.expect_err("it was lost");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(matches!(error, Error::Lost { .. }) && !error.is_retryable(), "{error:?}");

    // It can be had again, under a greater token.
    let token = next.fencing_token();
    assert!(next.is_held());
    released(next).await;
    assert!(acquired(&lock).await.fencing_token() > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_cut_off_says_no_before_the_next_one_holds() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let fixture = Fixture::with_directory("cut-off").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, policy).await;
        let guard = std::sync::Arc::new(acquired(&mutex(&client, &fixture.path)).await);
        let other = mutex(&fixture.client().await, &fixture.path);
        let waiting = {
            let guard = std::sync::Arc::clone(&guard);
            // Asked at the very moment at which the next one holds, in the same task.
            tokio::spawn(async move {
                let next = other.acquire().await.expect("held");
                (guard.is_held(), next)
            })
        };
        fixture.observer.wait_for_children(&fixture.path, 2).await;
        proxy.set(Fault::BlackHole).await;
        let (believed, next) = within("its turn comes", SOON, waiting).await.expect("no panic");
        assert!(!believed, "{policy:?}: two held");
        assert!(next.is_held() && !guard.is_held());
        proxy.set(Fault::Pass).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_session_is_killed_takes_a_new_place() {
    let fixture = Fixture::with_directory("waiter").await;
    let holder = acquired(&mutex(&fixture.client().await, &fixture.path)).await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let mut states = States::of(&client);
    let mut waiting = Waiting::behind(&fixture, &mutex(&client, &fixture.path), 1).await;
    for _ in 0..2 {
        proxy.kill_session().await;
        proxy.cut().await;
        states.wait_for(zookeeper_recipes::ConnectionState::Lost).await;
        fixture.observer.wait_for_children(&fixture.path, 2).await;
        waiting.still_pending().await;
    }
    assert!(holder.is_held());
    released(holder).await;
    let guard = waiting.turn().await;
    assert_eq!(fixture.observer.owner(guard.node_path()).await, client.session_id());
    released(guard).await;
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_silent_partition_a_timed_acquire_returns_at_its_deadline() {
    let fixture = Fixture::with_directory("silence").await;
    let holder = acquired(&mutex(&fixture.client().await, &fixture.path)).await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(10), ErrorPolicy::Standard).await;
    let lock = mutex(&client, &fixture.path);
    proxy.set(Fault::BlackHole).await;
    let begun = std::time::Instant::now();
    let error = lock.acquire_timeout(Duration::from_secs(2)).await.expect_err("the outcome is unknown");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    // An observation with room for a busy machine: far from the session timeout.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    proxy.set(Fault::Pass).await;
    fixture.observer.wait_for_children(&fixture.path, 1).await;
    assert!(holder.is_held());
}
