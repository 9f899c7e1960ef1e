//! LeaderSelector: one term at a time, whatever happens, each with its end reported, and a turn for every participant.

mod ledger;
mod listener;
mod play;

use self::play::Terms;
use crate::seeds::{self, Figures};
use crate::stage;

#[test]
fn leader_selector() {
    let least = Figures { faults: 15, turns: 8, hand_overs: 6, cancelled: 1, millis: 0 };
    seeds::run_all("leader_selector", least, stage::run::<Terms>);
}

#[test]
fn leader_selector_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("leader_selector", stage::run::<Terms>);
}
