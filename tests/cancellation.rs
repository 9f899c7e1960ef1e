//! Every public future of the crate, dropped at every point: no node, no watch and no session stays behind, what it was
//! called on still works, and what its `# Cancel safety` promises holds.
#![cfg(all(
    feature = "leader-latch",
    feature = "leader-selector",
    feature = "limiter",
    feature = "mutex",
    feature = "double-barrier",
    feature = "barrier",
    feature = "queue",
    feature = "throughput-balancer",
    feature = "testing"
))]

mod cancel;

/// A file for each thing that is cancelled.
mod cancellation {
    pub(crate) mod barrier;
    pub(crate) mod client;
    pub(crate) mod double_barrier;
    pub(crate) mod leader_latch;
    pub(crate) mod leader_selector;
    pub(crate) mod leader_stream;
    pub(crate) mod leadership;
    pub(crate) mod life;
    pub(crate) mod limiter;
    pub(crate) mod mutex;
    pub(crate) mod mutex_guard;
    pub(crate) mod queue;
    pub(crate) mod queue_delivery;
    pub(crate) mod throughput_balancer;

    /// What the files cover.
    pub(crate) const COVERED: [&[&str]; 14] = [
        barrier::COVERED,
        client::COVERED,
        double_barrier::COVERED,
        leader_latch::COVERED,
        leader_selector::COVERED,
        leader_stream::COVERED,
        leadership::COVERED,
        life::COVERED,
        limiter::COVERED,
        mutex::COVERED,
        mutex_guard::COVERED,
        queue::COVERED,
        queue_delivery::COVERED,
        throughput_balancer::COVERED,
    ];
}

use std::collections::BTreeSet;

#[test]
fn every_public_future_is_covered() {
    let covered: BTreeSet<String> =
        cancellation::COVERED.into_iter().flatten().map(|name| (*name).to_owned()).collect();
    let public = cancel::public_futures();
    let missing: Vec<_> = public.difference(&covered).collect();
    assert!(missing.is_empty(), "no test drops these (add them to tests/cancellation): {missing:?}");
    let unknown: Vec<_> = covered.difference(&public).collect();
    assert!(unknown.is_empty(), "there are no such public functions: {unknown:?}");
}
