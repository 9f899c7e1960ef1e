//! The table of the documentation, and members whose sessions end.

use zookeeper_recipes::throughput_balancer::set_max_throughput;

use super::fixture::{Fixture, SOON, have, member};
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_and_the_maximum_changes() {
    let fixture = Fixture::new("balancer").await;
    let base = fixture.path.as_str();
    let operator = fixture.client().await;
    set_max_throughput(&operator, base, 1_000).await.expect("set");

    let client = fixture.client().await;
    let c1 = member(&client, base).await;
    have(&[&c1], &[1000], 1000).await;
    assert!(c1.is_leader());
    let c2 = member(&fixture.client().await, base).await;
    have(&[&c1, &c2], &[500, 500], 1000).await;
    let c3 = member(&fixture.client().await, base).await;
    have(&[&c1, &c2, &c3], &[333, 333, 333], 1000).await;
    let c4 = member(&fixture.client().await, base).await;
    have(&[&c1, &c2, &c3, &c4], &[250, 250, 250, 250], 1000).await;
    assert!(c1.is_leader() && !c2.is_leader() && !c3.is_leader() && !c4.is_leader());

    client.close().await.expect("closed");
    have(&[&c1, &c2, &c3, &c4], &[0, 333, 333, 333], 1000).await;
    assert!(c2.is_leader() && !c1.is_leader() && !c3.is_leader());
    within("it leaves", SOON, c4.leave()).await;
    have(&[&c2, &c3, &c4], &[500, 500, 0], 1000).await;
    set_max_throughput(&operator, base, 500).await.expect("set");
    have(&[&c2, &c3], &[250, 250], 1000).await;
    let c5 = member(&fixture.client().await, base).await;
    have(&[&c2, &c3, &c5], &[166, 166, 166], 500).await;
    assert!(c2.is_leader() && !c3.is_leader() && !c5.is_leader());

    let members = c5.members().await.expect("members");
    let seen: Vec<_> = members.iter().map(|member| (member.id.as_str(), member.throughput, member.is_leader)).collect();
    assert_eq!(
        seen,
        [("client-0000000001", 166, true), ("client-0000000002", 166, false), ("client-0000000004", 166, false)]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maximum_that_another_kind_of_client_sets_counts_at_once() {
    let fixture = Fixture::new("byhand").await;
    let base = fixture.path.as_str();
    let client = fixture.client().await;
    set_max_throughput(&client, base, 100).await.expect("set");
    let (one, two) = (member(&client, base).await, member(&fixture.client().await, base).await);
    have(&[&one, &two], &[50, 50], 100).await;
    let maximum = format!("{base}/global-config/max-throughput");
    for (by_hand, share, most) in [("60\n", 30, 100), ("4000", 2_000, 4_000), ("0", 0, 4_000)] {
        fixture.observer.set_data(&maximum, by_hand.as_bytes()).await;
        have(&[&one, &two], &[share; 2], most).await;
    }
}
