//! The recipe `LeaderSelector` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` covers what only a real server has: the order of its events, sessions and
//! connections that end by its clock, and ACLs.

mod basics;
mod faults;
mod fixture;
mod lost_replies;
mod permission;
