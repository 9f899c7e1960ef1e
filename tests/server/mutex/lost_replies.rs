//! Requests and answers that get lost: never a second node, never a forgotten one.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::fixture::{Fixture, SOON, What, acquired, for_each_loss, lose, mutex, released};
use crate::support::{OpCode, unique_path, within};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_create_or_list_ends_in_exactly_one_node_that_holds() {
    let fixture = Fixture::new("create").await;
    let fixture = &fixture;
    for op in [OpCode::Create2, OpCode::GetChildren2] {
        for_each_loss(async |what, how| {
            let case = format!("{what:?} of {op:?} lost by {how:?}");
            let dir = unique_path("create");
            fixture.observer.create(&dir, b"").await;
            let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let session = client.session_id();
            let fault = lose(&proxy, what, op, how);
            let guard = acquired(&mutex(&client, &dir)).await;
            assert!(fault.has_fired(), "{case}");
            let nodes = fixture.observer.children(&dir).await;
            let paths: Vec<_> = nodes.iter().map(|name| format!("{dir}/{name}")).collect();
            assert_eq!(paths, [guard.node_path()], "{case}");
            assert_eq!(fixture.observer.owner(guard.node_path()).await, client.session_id(), "{case}");
            assert_eq!(client.session_id(), session, "{case}: the session survived");
            released(guard).await;
            assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_watch_of_a_waiter_does_not_lose_its_turn() {
    let fixture = Fixture::new("watch").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let dir = unique_path("watch");
        let held = acquired(&mutex(&fixture.client().await, &dir)).await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let fault = lose(&proxy, what, OpCode::GetData, how);
        let waiting = mutex(&client, &dir);
        let waiting = tokio::spawn(async move { waiting.acquire().await });
        fault.fired().await;
        // The holder leaves while the waiter is cut off.
        released(held).await;
        let guard = within("its turn comes", SOON, waiting).await.expect("no panic").expect("held");
        released(guard).await;
        assert_eq!(fixture.observer.children(&dir).await, [""; 0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_delete_is_repeated_until_the_node_is_gone_for_a_release_and_for_a_drop() {
    let fixture = Fixture::new("delete").await;
    let fixture = &fixture;
    for dropped in [false, true] {
        for_each_loss(async |what, how| {
            let case = format!("{what:?} lost by {how:?}");
            let dir = unique_path("delete");
            fixture.observer.create(&dir, b"").await;
            let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let session = client.session_id();
            let guard = acquired(&mutex(&client, &dir)).await;
            let fault = lose(&proxy, what, OpCode::Delete, how);
            if dropped {
                drop(guard);
                fixture.observer.wait_for_children(&dir, 0).await;
            } else {
                released(guard).await;
                assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
            }
            fault.fired().await;
            assert_eq!(client.session_id(), session, "{case}: the session survived");
            // The janitor may check once more; the next waiter does not disturb it.
            released(acquired(&mutex(&client, &dir)).await).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_or_timed_out_while_its_create_is_in_doubt_leaves_no_node() {
    let fixture = Fixture::new("doubt").await;
    let fixture = &fixture;
    for timed in [false, true] {
        for_each_loss(async |what, how| {
            let case = format!("{what:?} lost by {how:?}");
            let dir = unique_path("doubt");
            fixture.observer.create(&dir, b"").await;
            let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let session = client.session_id();
            let fault = lose(&proxy, what, OpCode::Create2, how);
            let lock = mutex(&client, &dir);
            if timed {
                let limit = Duration::from_millis(300);
                let tried = within(&case, SOON, lock.acquire_timeout(limit)).await;
                // Free, known not to be had, or unknown: each is the truth, and nothing stays.
                match tried {
                    Ok(guard) => drop(guard),
                    Err(error) => assert_eq!(error.kind(), zookeeper_recipes::ErrorKind::OutcomeUnknown, "{case}"),
                }
            } else {
                let acquiring = tokio::spawn(async move { lock.acquire().await });
                fault.fired().await;
                if let What::Answer = what {
                    fixture.observer.wait_for_children(&dir, 1).await;
                }
                acquiring.abort();
            }
            assert!(fault.has_fired(), "{case}");
            fixture.observer.wait_for_children(&dir, 0).await;
            assert_eq!(client.session_id(), session, "{case}: deleted by us, not by the end of a session");
            released(acquired(&mutex(&client, &dir)).await).await;
        })
        .await;
    }
}
