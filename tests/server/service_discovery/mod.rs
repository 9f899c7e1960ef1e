//! The recipe `ServiceDiscovery` on real ZooKeeper servers.
//!
//! A scenario repeated from `tests/memory` covers what only a real server has: what another client sees in the nodes,
//! sessions that it ends by its own clock, processes that are killed, containers that it removes, and its ACLs.
//! `interop/curator` has Curator's own code on the other side.

mod basics;
mod faults;
mod fixture;
