//! SharedValue: a confirmed write is made once, over the version it saw; no reader goes back; in the end all agree.

mod call;
mod play;

use crate::seeds::{self, Figures};

#[test]
fn shared_value() {
    let least = Figures { faults: 12, turns: 15, hand_overs: 4, cancelled: 2, millis: 0 };
    seeds::run_all("shared_value", least, play::run);
}

#[test]
fn shared_value_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("shared_value", play::run);
}
