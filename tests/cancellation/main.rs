//! Every public future of the crate, dropped at every point: no node, no watch and no session is left behind, the
//! object still works, and the promises of its `# Cancel safety` hold.
#![cfg(all(
    feature = "leader-latch",
    feature = "leader-selector",
    feature = "limiter",
    feature = "mutex",
    feature = "read-write-lock",
    feature = "multi-lock",
    feature = "semaphore",
    feature = "double-barrier",
    feature = "barrier",
    feature = "persistent-node",
    feature = "cache",
    feature = "group-member",
    feature = "service-discovery",
    feature = "shared-value",
    feature = "atomic-long",
    feature = "queue",
    feature = "throughput-balancer",
    feature = "partition-assigner",
    feature = "inspect",
    feature = "testing"
))]

mod harness;
#[path = "../support/polls.rs"]
mod polls;

mod atomic_long;
mod barrier;
mod cache;
mod client;
mod double_barrier;
mod group_member;
mod inspect;
mod leader_latch;
mod leader_selector;
mod limiter;
mod multi_lock;
mod mutex;
mod partition_assigner;
mod persistent_node;
mod queue;
mod read_write_lock;
mod semaphore;
mod service_discovery;
mod shared_value;
mod throughput_balancer;

use std::collections::BTreeSet;

/// The functions that the files cover.
const COVERED: [&[&str]; 28] = [
    atomic_long::COVERED,
    barrier::COVERED,
    cache::COVERED,
    client::COVERED,
    client::life::COVERED,
    double_barrier::COVERED,
    group_member::COVERED,
    inspect::COVERED,
    leader_latch::COVERED,
    leader_latch::leader_stream::COVERED,
    leader_latch::leadership::COVERED,
    leader_latch::requests::COVERED,
    leader_latch::states::COVERED,
    leader_selector::COVERED,
    limiter::COVERED,
    multi_lock::COVERED,
    mutex::COVERED,
    mutex::guard::COVERED,
    persistent_node::COVERED,
    queue::COVERED,
    queue::delivery::COVERED,
    read_write_lock::COVERED,
    read_write_lock::guard::COVERED,
    semaphore::COVERED,
    service_discovery::COVERED,
    shared_value::COVERED,
    partition_assigner::COVERED,
    throughput_balancer::COVERED,
];

#[test]
fn every_public_future_is_covered() {
    let covered: BTreeSet<String> = COVERED.into_iter().flatten().map(|name| (*name).to_owned()).collect();
    let public = harness::public_futures();
    let missing: Vec<_> = public.difference(&covered).collect();
    assert!(missing.is_empty(), "no test drops these (add them to tests/cancellation): {missing:?}");
    let unknown: Vec<_> = covered.difference(&public).collect();
    assert!(unknown.is_empty(), "there are no such public functions: {unknown:?}");
}
