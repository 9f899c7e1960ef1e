//! Shared by the tests of the assigner: a server, a path, and helpers for members.

use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{PartitionAssigner, PartitionAssignerBuilder};
use zookeeper_recipes::testing::TestingServer;

use crate::fixture::{SOON, T, within};

pub(crate) const BASE: &str = "/jobs/partitions";
/// How many partitions there are.
pub(crate) const PARTITIONS: u32 = 12;

/// A server, and so many clients.
pub(crate) async fn setup(clients: usize) -> (TestingServer, Vec<Client>) {
    let server = TestingServer::start();
    let mut all = Vec::new();
    for _ in 0..clients {
        all.push(server.client().await.expect("a client"));
    }
    (server, all)
}

/// The options of a member that acts at once.
pub(crate) fn eager(client: &Client, id: &str) -> PartitionAssignerBuilder {
    PartitionAssigner::builder(client, BASE)
        .partitions(0..PARTITIONS)
        .id(id)
        .debounce(Duration::ZERO, Duration::ZERO)
        .grace_period(Duration::ZERO)
}

pub(crate) async fn joined(client: &Client, id: &str) -> PartitionAssigner {
    within("it joins", SOON, eager(client, id).join()).await.expect("it joins")
}

/// The names of the partitions that a member holds, as numbers in order.
pub(crate) fn held(member: &PartitionAssigner) -> Vec<u32> {
    let mut held: Vec<u32> = member.assigned().iter().map(|one| one.id().parse().expect("a number")).collect();
    held.sort_unstable();
    held
}

/// Waits until the members hold so many partitions each, and checks that together they hold each exactly once.
pub(crate) async fn hold(server: &TestingServer, members: &[&PartitionAssigner], counts: &[usize]) {
    hold_within(server, SOON * 4, members, counts).await;
}

pub(crate) async fn hold_within(
    server: &TestingServer,
    limit: Duration,
    members: &[&PartitionAssigner],
    counts: &[usize],
) {
    let now = || members.iter().map(|member| member.assigned().len()).collect::<Vec<_>>();
    let done = tokio::time::timeout(limit, server.until(|| now() == counts)).await;
    assert!(done.is_ok(), "{:?}, not {counts:?} within {limit:?}; nodes: {:#?}", now(), nodes(server));
    // And it stays so.
    tokio::time::sleep(SOON).await;
    assert_eq!(now(), counts);
    let mut all: Vec<_> = members.iter().flat_map(|member| member.assigned()).map(|one| one.id().to_owned()).collect();
    all.sort_unstable();
    let before = all.len();
    all.dedup();
    assert_eq!(all.len(), before, "no partition is held twice");
    let owned = server.children(&format!("{BASE}/owned"));
    assert_eq!(owned.len(), all.len(), "one node for each partition that is held: {owned:?}");
}

/// All nodes below the base with their data, except those of the election.
pub(crate) fn nodes(server: &TestingServer) -> Vec<String> {
    let paths = server.paths().into_iter();
    let below = paths.filter(|path| path.starts_with(BASE) && !path.contains("/leader/"));
    below.map(|path| format!("{path}: {}", String::from_utf8_lossy(&server.get(&path).unwrap_or_default()))).collect()
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    crate::fixture::eventually(what, T * 5, || std::future::ready(condition())).await;
}
