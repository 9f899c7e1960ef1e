//! Cache: what a cache shows was true on the servers, no node becomes older, no change is lost, and in the end it shows
//! what the servers have. This holds even if the tree is written without a pause.

mod churn;
mod history;
mod ledger;
mod play;
mod reader;

use zookeeper_recipes::testing::{TestingServer, TestingServerBuilder};

use crate::seeds::{self, Figures, Outcome};

/// In one seed of eight nothing fails, but the tree is written without a pause. In every other seed, the servers
/// have no persistent watches.
async fn run(seed: u64) -> Outcome {
    if (seed / 2).is_multiple_of(8) { churn::run(seed).await } else { play::run(seed).await }
}

fn servers(seed: u64) -> TestingServerBuilder {
    TestingServer::builder().persistent_watches(seed.is_multiple_of(2))
}

#[test]
fn cache() {
    let least = Figures { faults: 10, turns: 100, hand_overs: 4, cancelled: 2, millis: 0 };
    seeds::run_all("cache", least, run);
}

#[test]
fn cache_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("cache", run);
}
