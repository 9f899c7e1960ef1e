//! The recipe `LeaderLatch` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` covers what only a real server has: connections that end in three ways,
//! sessions that expire by the server's clock, watches that it counts and sets again, ACLs, packets on the wire, and
//! containers.

mod basics;
mod cancellation;
mod client_end;
mod cluster;
mod crowd;
mod deleted;
mod exhausted;
mod expiry;
mod fixture;
mod foreign;
mod herd;
mod lost_replies;
mod observe;
mod permission;
mod policy;
mod priority;
mod requests;
mod restart;
mod transfer;
