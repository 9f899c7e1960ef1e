//! The recipe `DoubleBarrier` on real ZooKeeper servers.
//!
//! What repeats a scenario of `tests/memory` is one of Curator's own tests, or is here for what a real server adds:
//! connections that end in three ways, sessions that expire by the server's clock, and transactions that it refuses.

mod basics;
mod expiry;
mod fixture;
mod lost_replies;
mod requests;
