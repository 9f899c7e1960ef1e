//! The cache on real ZooKeeper servers: Curator's scenarios of its caches, with changes made by another client.
//!
//! What is repeated from `tests/memory` covers what only a real server has: the order of its events and answers, its
//! versions and ACLs, its limits, connections that end, and restarts.

mod basics;
mod failures;
mod fixture;
mod many;
mod permissions;
mod random;
mod together;
