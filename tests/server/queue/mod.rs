//! The recipe `DistributedQueue` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` covers what only a real server has: transactions that it refuses, its
//! limits, packets on the wire, and consumers in processes of their own.

mod basics;
mod expiry;
mod fixture;
mod identity;
mod limits;
mod lost_replies;
mod processes;
mod requests;
mod servers;
mod soak;
mod spawned;
