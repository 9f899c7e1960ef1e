//! The recipe `InterProcessMutex` on real ZooKeeper servers.
//!
//! What repeats a scenario of `tests/memory` is here for what a real server adds: connections that end in three ways,
//! sessions that expire by the server's clock, watches that it counts, and packets on the wire.

mod basics;
mod cancellation;
mod cluster;
mod deleted;
mod expiry;
mod fixture;
mod lost_replies;
mod no_server;
mod requests;
mod restart;
mod revoke;
mod stopped;
