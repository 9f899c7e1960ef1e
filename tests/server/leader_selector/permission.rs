//! A path that may not be entered.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::leader_selector::SelectorStatus;

use super::fixture::{Fixture, Stage, reaches, selector};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_permission_at_most_ten_requests_are_sent_in_two_seconds_and_the_state_says_why() {
    let fixture = Fixture::new("forbidden").await;
    fixture.observer.create_forbidden(&fixture.path).await;
    let client = fixture.client().await;
    let stage = Arc::<Stage>::default();
    let alice = selector(&client, &fixture.path, "alice", &stage, None);
    reaches(&alice, SelectorStatus::Failed).await;
    let error = alice.state().get().error().cloned().expect("a reason");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    // An observation.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let sent = client.request_counts().total();
    assert!((2..=10).contains(&sent), "{sent} requests");
    assert!(stage.terms().is_empty());
    alice.close().await.expect("nothing is left");
}
