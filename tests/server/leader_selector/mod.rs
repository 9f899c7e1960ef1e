//! The recipe `LeaderSelector` on real ZooKeeper servers.
//!
//! What repeats a scenario of `tests/memory` is here for what a real server adds: the order of its events, sessions and
//! connections that end by its clock, and ACLs.

mod basics;
mod faults;
mod fixture;
mod lost_replies;
mod permission;
