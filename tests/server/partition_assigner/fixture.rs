//! Shared by the tests of the assigner: helpers for members.

use std::collections::BTreeMap;
use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{Owned, PartitionAssigner, PartitionAssignerBuilder};

pub(crate) use crate::fixture::*;
use crate::support::{Observer, within};

/// How many partitions there are.
pub(crate) const PARTITIONS: usize = 12;

/// The options of a member that acts at once.
pub(crate) fn eager(client: &Client, base: &str, id: &str) -> PartitionAssignerBuilder {
    PartitionAssigner::builder(client, base)
        .partitions(0..PARTITIONS as u32)
        .id(id)
        .debounce(Duration::ZERO, Duration::ZERO)
        .grace_period(Duration::ZERO)
}

pub(crate) async fn joined(options: PartitionAssignerBuilder) -> PartitionAssigner {
    within("a member joins", SOON, options.join()).await.expect("it joins")
}

pub(crate) async fn member(client: &Client, base: &str, id: &str) -> PartitionAssigner {
    joined(eager(client, base, id)).await
}

pub(crate) fn counts(members: &[&PartitionAssigner]) -> Vec<usize> {
    members.iter().map(|member| member.assigned().len()).collect()
}

/// Panics if two members hold the same partition. A hold that has ended never begins again, so one that is held after
/// another one was held has been held beside it.
pub(crate) fn no_two_own(members: &[&PartitionAssigner]) {
    let mut seen: BTreeMap<String, Owned> = BTreeMap::new();
    for partition in members.iter().flat_map(|member| member.assigned()) {
        if let Some(before) = seen.insert(partition.id().to_owned(), partition.clone()) {
            assert!(!before.is_held(), "{before:?} beside {partition:?}");
        }
    }
}

/// Waits until the members hold so many partitions each, and never sees two that hold the same one.
pub(crate) async fn have(members: &[&PartitionAssigner], expected: &[usize]) {
    let reached = async {
        loop {
            no_two_own(members);
            if counts(members) == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let reached = tokio::time::timeout(SOON, reached).await;
    assert!(reached.is_ok(), "{:?}, not {expected:?}", counts(members));
}

/// The fencing tokens of what the members hold, by the names of the partitions.
pub(crate) fn tokens(members: &[&PartitionAssigner]) -> BTreeMap<String, i64> {
    let held = members.iter().flat_map(|member| member.assigned());
    held.map(|partition| (partition.id().to_owned(), partition.fencing_token())).collect()
}

/// How many nodes there are: of members, of assignments, of partitions that are held, of places in the election.
pub(crate) async fn nodes(observer: &Observer, base: &str) -> [usize; 4] {
    let mut nodes = [0; 4];
    for (count, dir) in nodes.iter_mut().zip(["members", "assignments", "owned", "leader"]) {
        *count = observer.children(&format!("{base}/{dir}")).await.len();
    }
    nodes
}
