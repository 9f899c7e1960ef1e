//! InterProcessSemaphore: never more holders than permits, all permits of a call or none, and a turn for every waiter.

mod ledger;
mod play;
mod worker;

use crate::seeds::{self, Figures};

#[test]
fn semaphore() {
    let least = Figures { faults: 10, turns: 8, hand_overs: 6, cancelled: 2, millis: 0 };
    seeds::run_all("semaphore", least, play::run);
}

#[test]
fn semaphore_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("semaphore", play::run);
}
