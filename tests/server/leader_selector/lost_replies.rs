//! Requests and answers that get lost.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::leader_selector::TermEnd;

use super::fixture::{Fixture, Stage, for_each_loss, leads, lose, next, selector};
use crate::support::{OpCode, unique_path};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_create_list_or_delete_costs_neither_a_node_nor_a_turn() {
    let fixture = Fixture::new("lost").await;
    let fixture = &fixture;
    for op in [OpCode::Create2, OpCode::GetChildren2, OpCode::Delete] {
        for_each_loss(async |what, how| {
            let case = format!("{what:?} of {op:?} lost by {how:?}");
            let dir = unique_path("lost");
            fixture.observer.create(&dir, b"").await;
            let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let session = client.session_id();
            let fault = lose(&proxy, what, op, how);
            let stage = Arc::<Stage>::default();
            let alice = selector(&client, &dir, "alice", &stage, Duration::from_millis(500));
            let mut outcomes = alice.outcomes();
            assert!(matches!(next(&mut outcomes).await.end, TermEnd::Returned), "{case}");
            fault.fired().await;
            leads(&alice).await;
            assert_eq!(fixture.observer.children(&dir).await.len(), 1, "{case}");
            assert_eq!((client.session_id(), stage.most_and_now().0), (session, 1), "{case}");
            alice.close().await.expect("closed");
            assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
        })
        .await;
    }
}
