//! InterProcessMultiLock: all locks or none, one holder each, and a turn for every waiter, whatever locks they share.

mod play;

use crate::seeds::{self, Figures};

#[test]
fn multi_lock() {
    let least = Figures { faults: 12, turns: 12, hand_overs: 8, cancelled: 2, millis: 0 };
    seeds::run_all("multi_lock", least, play::run);
}

#[test]
fn multi_lock_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("multi_lock", play::run);
}
