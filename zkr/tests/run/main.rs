//! Commands that run under locks, on real ZooKeeper servers: each fault, and each misuse.

mod contender;
mod faults;
mod judge;
mod misuse;
mod outages;
mod service;
#[path = "../../../tests/support/mod.rs"]
mod support;
mod use_cases;
