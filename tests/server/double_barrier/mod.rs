//! The recipe `DoubleBarrier` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` is one of Curator's own tests, or covers what only a real server has:
//! connections that end in three ways, sessions that expire by the server's clock, and transactions that it refuses.

mod basics;
mod expiry;
mod fixture;
mod lost_replies;
mod requests;
