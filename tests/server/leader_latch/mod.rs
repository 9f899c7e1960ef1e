//! The recipe `LeaderLatch` on real ZooKeeper servers.
//!
//! What repeats a scenario of `tests/memory` is here for what a real server adds: connections that end in three ways,
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
mod requests;
mod restart;
