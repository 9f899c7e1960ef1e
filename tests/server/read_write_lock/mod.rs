//! The recipe `InterProcessReadWriteLock` on real ZooKeeper servers.

mod basics;
mod downgrade;
mod expiry;
mod fixture;
