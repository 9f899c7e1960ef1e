//! InterProcessReadWriteLock: a writer never holds with anyone else, whatever happens, and a turn for every waiter.

mod recipe;

use self::recipe::ReadWriteLock;
use crate::seeds::{self, Figures};
use crate::stage;
use crate::workshop::Workshop;

#[test]
fn read_write_lock() {
    let least = Figures { faults: 15, turns: 8, hand_overs: 7, cancelled: 4, millis: 0 };
    seeds::run_all("read_write_lock", least, stage::run::<Workshop<ReadWriteLock>>);
}

#[test]
fn read_write_lock_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("read_write_lock", stage::run::<Workshop<ReadWriteLock>>);
}
