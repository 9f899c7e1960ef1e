//! DistributedQueue: every item that was put exists once, each item is delivered and acked, and no item stays claimed
//! without a consumer that works on it.

mod claims;
mod consumer;
mod ledger;
mod picky;
mod play;
mod producer;

use crate::seeds::{self, Figures};

#[test]
fn queue() {
    let least = Figures { faults: 10, turns: 8, hand_overs: 1, cancelled: 2, millis: 0 };
    seeds::run_all("queue", least, play::run);
}

#[test]
fn queue_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("queue", play::run);
}
