//! ThroughputBalancer: together never more than the maximum in force, whatever happens; and in the end what is due to each.

mod ledger;
mod play;

use crate::seeds::{self, Figures};

#[test]
fn throughput_balancer() {
    let least = Figures { faults: 5, turns: 5, hand_overs: 2, cancelled: 1, millis: 0 };
    seeds::run_all("throughput_balancer", least, play::run);
}

#[test]
fn throughput_balancer_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("throughput_balancer", play::run);
}
