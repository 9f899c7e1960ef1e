//! ServiceDiscovery: whatever happens, in the end each service finds what is registered. No process disturbs another
//! one's registration, none is left after it was unregistered, and an outage takes no instance from those who look.

mod ledger;
mod looker;
mod play;
mod registered;

use crate::seeds::{self, Figures};

#[test]
fn service_discovery() {
    let least = Figures { faults: 12, turns: 12, hand_overs: 5, cancelled: 4, millis: 0 };
    seeds::run_all("service_discovery", least, play::run);
}

#[test]
fn service_discovery_has_the_same_trace_for_the_same_seed() {
    seeds::run_twice("service_discovery", play::run);
}
