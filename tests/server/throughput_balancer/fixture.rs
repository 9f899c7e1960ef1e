//! Shared by the tests of the balancer: helpers for members.

use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::throughput_balancer::{ThroughputBalancer, ThroughputBalancerBuilder};

pub(crate) use crate::fixture::*;
use crate::support::within;

/// The options of a member that acts at once.
pub(crate) fn eager(client: &Client, base: &str) -> ThroughputBalancerBuilder {
    ThroughputBalancer::builder(client, base).debounce(Duration::ZERO, Duration::ZERO)
}

pub(crate) async fn joined(options: ThroughputBalancerBuilder) -> ThroughputBalancer {
    within("a member joins", SOON, options.join()).await.expect("it joins")
}

pub(crate) async fn member(client: &Client, base: &str) -> ThroughputBalancer {
    joined(eager(client, base)).await
}

pub(crate) fn throughputs(members: &[&ThroughputBalancer]) -> Vec<u64> {
    members.iter().map(|member| member.share().get().throughput()).collect()
}

/// Waits until the members have these shares, and never sees more than `most` together.
pub(crate) async fn have(members: &[&ThroughputBalancer], shares: &[u64], most: u64) {
    let reached = async {
        loop {
            let seen = throughputs(members);
            assert!(seen.iter().sum::<u64>() <= most, "{seen:?} are more than {most}");
            if seen == shares {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let reached = tokio::time::timeout(SOON, reached).await;
    assert!(reached.is_ok(), "{:?}, not {shares:?}", throughputs(members));
}

/// How many nodes the balancer's members have: their own, acknowledgements, places in the line of leaders.
pub(crate) async fn nodes(fixture: &Fixture, base: &str) -> [usize; 3] {
    let mut nodes = [0; 3];
    for (count, dir) in nodes.iter_mut().zip(["client", "ack", "leader"]) {
        *count = fixture.observer.children(&format!("{base}/{dir}")).await.len();
    }
    nodes
}
