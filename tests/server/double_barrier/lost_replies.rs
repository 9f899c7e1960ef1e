//! Requests and answers that get lost, at every step: which no test of Curator's covers.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::fixture::{Fixture, SOON, for_each_loss, leave_all, lose, member};
use crate::support::{OpCode, unique_path, within};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enter_of_which_anything_is_lost_has_one_node_and_is_in_with_the_other() {
    let fixture = Fixture::new("enter").await;
    let fixture = &fixture;
    for op in [OpCode::Create2, OpCode::Exists, OpCode::GetChildren2, OpCode::Multi] {
        for_each_loss(async |what, how| {
            let case = format!("{what:?} of {op:?} lost by {how:?}");
            let dir = unique_path("enter");
            fixture.observer.create(&dir, b"").await;
            let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let (one, two) = (member(&client, &dir, 2), member(&fixture.client().await, &dir, 2));
            let session = client.session_id();
            let fault = lose(&proxy, what, op, how);
            // The other is there first, so that it is this one which opens.
            let other = tokio::spawn(async move {
                two.enter().await.expect("in");
                two
            });
            fixture.observer.wait_for_children(&dir, 1).await;
            within("both are in", SOON, one.enter()).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            let two = within("both are in", SOON, other).await.expect("no panic");
            assert!(fault.has_fired(), "{case}");
            assert_eq!(client.session_id(), session, "{case}: the session survived");
            assert_eq!(fixture.observer.children(&dir).await.len(), 3, "{case}");
            leave_all(&[one, two]).await;
            assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leave_of_which_anything_is_lost_returns_when_all_have_left() {
    let fixture = Fixture::new("leave").await;
    let fixture = &fixture;
    // The last one lists and leaves in a transaction.
    for op in [OpCode::GetChildren2, OpCode::Multi] {
        for_each_loss(async |what, how| {
            let case = format!("{what:?} of {op:?} lost by {how:?}");
            let dir = unique_path("leave");
            fixture.observer.create(&dir, b"").await;
            let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let one = member(&client, &dir, 1);
            within("in", SOON, one.enter()).await.expect("in");
            let fault = lose(&proxy, what, op, how);
            within("out", SOON, one.leave()).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(fault.has_fired(), "{case}");
            assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_out_whose_answer_is_lost_is_false_only_once_the_node_is_gone() {
    let fixture = Fixture::new("timeout").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let dir = unique_path("timeout");
        fixture.observer.create(&dir, b"").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let one = member(&client, &dir, 2);
        let fault = lose(&proxy, what, OpCode::Multi, how);
        match one.enter_timeout(Duration::from_secs(6)).await {
            Ok(entered) => {
                assert!(!entered, "{case}: alone");
                assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
            }
            // A silence may last longer than the second that is kept for it.
            Err(error) => assert_eq!(error.kind(), zookeeper_recipes::ErrorKind::OutcomeUnknown, "{case}: {error}"),
        }
        assert!(fault.has_fired(), "{case}");
        crate::support::eventually("nothing is left", SOON, || async {
            fixture.observer.children(&dir).await.is_empty()
        })
        .await;
    })
    .await;
}
