//! DoubleBarrier: whatever happens, a round has one outcome for all, no member passes early, and none waits forever.

mod ledger;
mod member;
mod play;

use crate::seeds::{self, Figures};

#[test]
fn double_barrier() {
    let least = Figures { faults: 10, turns: 5, hand_overs: 20, cancelled: 4, millis: 0 };
    seeds::run_all("double_barrier", least, play::run);
}

#[test]
fn double_barrier_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("double_barrier", play::run);
}
