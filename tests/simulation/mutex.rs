//! InterProcessMutex: one holder at a time, whatever happens, and a turn for every waiter.

mod recipe;

use self::recipe::Mutex;
use crate::seeds::{self, Figures};
use crate::stage;
use crate::workshop::Workshop;

#[test]
fn mutex() {
    let least = Figures { faults: 15, turns: 8, hand_overs: 7, cancelled: 4, millis: 0 };
    seeds::run_all("mutex", least, stage::run::<Workshop<Mutex>>);
}

#[test]
fn mutex_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("mutex", stage::run::<Workshop<Mutex>>);
}
