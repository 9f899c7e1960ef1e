//! GroupMember: whatever happens, in the end all members see the group that the servers have.

mod play;

use crate::seeds::{self, Figures};

#[test]
fn group_member() {
    let least = Figures { faults: 12, turns: 6, hand_overs: 0, cancelled: 2, millis: 0 };
    seeds::run_all("group_member", least, play::run);
}

#[test]
fn group_member_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("group_member", play::run);
}
