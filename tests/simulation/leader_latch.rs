//! LeaderLatch: one leader at a time, whatever happens; and in the end priorities are kept to.

mod play;
mod ranks;
mod requests;

use self::play::Election;
use crate::seeds::{self, Figures};
use crate::stage;

#[test]
fn leader_latch() {
    let least = Figures { faults: 10, turns: 5, hand_overs: 3, cancelled: 1, millis: 0 };
    seeds::run_all("leader_latch", least, stage::run::<Election>);
}

#[test]
fn leader_latch_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("leader_latch", stage::run::<Election>);
}
