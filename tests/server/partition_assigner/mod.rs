//! The recipe `PartitionAssigner` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` covers what only a real server has: transactions that it refuses, sessions
//! that expire by its clock, servers that lose their quorum, and members in processes of their own.

mod expiry;
mod fixture;
mod judge;
mod lost_replies;
mod quorum;
mod soak;
mod stopped;
mod table;
