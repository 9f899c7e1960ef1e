//! The table of the documentation, and members whose sessions end.

use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::throughput_balancer::{ThroughputBalancer, set_max_throughput};

use crate::scene::{SOON, Scene};
use crate::support::within;

async fn member(client: &Client, base: &str) -> ThroughputBalancer {
    let joining = ThroughputBalancer::builder(client, base).debounce(Duration::ZERO, Duration::ZERO).join();
    within("a member joins", SOON, joining).await.expect("it joins")
}

/// Waits until the members have these shares, and never sees more than `most` together.
async fn have(members: &[&ThroughputBalancer], shares: &[u64], most: u64) {
    let now = || members.iter().map(|member| member.share().borrow().throughput()).collect::<Vec<_>>();
    let reached = async {
        loop {
            let seen = now();
            assert!(seen.iter().sum::<u64>() <= most, "{seen:?} are more than {most}");
            if seen == shares {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let reached = tokio::time::timeout(SOON, reached).await;
    assert!(reached.is_ok(), "{:?}, not {shares:?}", now());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_and_the_maximum_changes() {
    let scene = Scene::new("balancer").await;
    let base = scene.path.as_str();
    let operator = scene.client().await;
    set_max_throughput(&operator, base, 1_000).await.expect("set");

    let client = scene.client().await;
    let c1 = member(&client, base).await;
    have(&[&c1], &[1000], 1000).await;
    assert!(c1.is_leader());
    let c2 = member(&scene.client().await, base).await;
    have(&[&c1, &c2], &[500, 500], 1000).await;
    let c3 = member(&scene.client().await, base).await;
    have(&[&c1, &c2, &c3], &[333, 333, 333], 1000).await;
    let c4 = member(&scene.client().await, base).await;
    have(&[&c1, &c2, &c3, &c4], &[250, 250, 250, 250], 1000).await;
    assert!(c1.is_leader() && !c2.is_leader() && !c3.is_leader() && !c4.is_leader());

    client.close().await.expect("closed");
    have(&[&c1, &c2, &c3, &c4], &[0, 333, 333, 333], 1000).await;
    assert!(c2.is_leader() && !c1.is_leader() && !c3.is_leader());
    within("it leaves", SOON, c4.leave()).await;
    have(&[&c2, &c3, &c4], &[500, 500, 0], 1000).await;
    set_max_throughput(&operator, base, 500).await.expect("set");
    have(&[&c2, &c3], &[250, 250], 1000).await;
    let c5 = member(&scene.client().await, base).await;
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
async fn under_a_maximum_that_makes_no_sense_shares_are_kept() {
    let scene = Scene::new("badmaximum").await;
    let base = scene.path.as_str();
    let client = scene.client().await;
    set_max_throughput(&client, base, 100).await.expect("set");
    let one = member(&client, base).await;
    have(&[&one], &[100], 100).await;
    let maximum = format!("{base}/global-config/max-throughput");
    client.set(&maximum, "lots", None).await.expect("set");
    let two = member(&scene.client().await, base).await;
    have(&[&one, &two], &[100, 0], 100).await;
    client.set(&maximum, "80", None).await.expect("set");
    have(&[&one, &two], &[40, 40], 100).await;
}
