//! The recipe `PersistentNode` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` is one of Curator's own tests, or covers what only a real server has: the
//! names, data and modes that another client sees, sessions that it ends by its own clock, a restart, its ACLs, and
//! connections that end in three ways.

mod basics;
mod faults;
pub(crate) mod fixture;
mod lost_replies;
