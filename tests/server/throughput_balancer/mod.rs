//! The recipe `ThroughputBalancer` on real ZooKeeper servers.
//!
//! What repeats a scenario of `tests/memory` is here for what a real server adds: transactions that it refuses,
//! sessions that expire by its clock, and members in processes of their own.

mod expiry;
mod fixture;
mod lost_replies;
mod stopped;
mod table;
