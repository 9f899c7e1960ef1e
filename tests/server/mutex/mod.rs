//! The recipe `InterProcessMutex` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` covers what only a real server has: connections that end in three ways,
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
mod threads;
