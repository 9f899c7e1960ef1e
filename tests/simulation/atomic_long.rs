//! DistributedAtomicLong: each confirmed change is made exactly once, a failed one never, an unknown one at most once.

mod call;
mod play;

use crate::seeds::{self, Figures};

#[test]
fn atomic_long() {
    let least = Figures { faults: 12, turns: 20, hand_overs: 4, cancelled: 3, millis: 0 };
    seeds::run_all("atomic_long", least, play::run);
}

#[test]
fn atomic_long_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("atomic_long", play::run);
}
