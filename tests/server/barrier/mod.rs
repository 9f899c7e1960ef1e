//! The recipe `Barrier` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` is one of Curator's own tests, or covers what only a real server has:
//! connections that end in three ways, and watches that it counts.

mod basics;
mod lost_replies;
