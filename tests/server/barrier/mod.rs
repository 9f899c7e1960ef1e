//! The recipe `Barrier` on real ZooKeeper servers.
//!
//! What repeats a scenario of `tests/memory` is one of Curator's own tests, or is here for what a real server adds:
//! connections that end in three ways, and watches that it counts.

mod basics;
mod lost_replies;
