//! ThroughputBalancer: members together never use more than the maximum in force, whatever happens; in the end each has
//! its due share; and while members come and go, they use nearly all of the maximum.

mod churn;
mod ledger;
mod play;

use crate::seeds::{self, Figures, Outcome};

/// In one seed of sixteen nothing fails, but members come and go all the time.
async fn run(seed: u64) -> Outcome {
    if seed.is_multiple_of(16) { churn::run(seed).await } else { play::run(seed).await }
}

#[test]
fn throughput_balancer() {
    let least = Figures { faults: 5, turns: 5, hand_overs: 2, cancelled: 1, millis: 0 };
    seeds::run_all("throughput_balancer", least, run);
}

#[test]
fn throughput_balancer_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("throughput_balancer", run);
}
