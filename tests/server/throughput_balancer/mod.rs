//! The recipe `ThroughputBalancer` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` covers what only a real server has: transactions that it refuses,
//! sessions that expire by its clock, and members in processes of their own.

mod expiry;
mod fixture;
mod lost_replies;
mod stopped;
mod table;
