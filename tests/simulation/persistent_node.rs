//! PersistentNode: a node for each instance, with its latest data, whatever happens; none after a close. If several
//! instances share a path, the one that has the node is not disturbed.

mod ledger;
mod play;

use crate::seeds::{self, Figures};

#[test]
fn persistent_node() {
    let least = Figures { faults: 10, turns: 10, hand_overs: 3, cancelled: 1, millis: 0 };
    seeds::run_all("persistent_node", least, play::run);
}

#[test]
fn persistent_node_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("persistent_node", play::run);
}
