//! InterProcessMutex: one holder at a time, whatever happens, and a turn for every waiter.

mod play;
mod worker;

use self::play::Workshop;
use crate::seeds::{self, Figures};
use crate::stage;

#[test]
fn mutex() {
    let least = Figures { faults: 15, turns: 8, hand_overs: 7, cancelled: 4, millis: 0 };
    seeds::run_all("mutex", least, stage::run::<Workshop>);
}

#[test]
fn mutex_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("mutex", stage::run::<Workshop>);
}
