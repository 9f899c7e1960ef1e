//! The recipe `InterProcessReadWriteLock` on an ensemble in memory.

mod basics;
mod connection;
mod deleted;
mod downgrade;
mod exhausted;
mod fixture;
mod freeze;
mod input;
mod lost_replies;
mod order;
mod permission;
mod requests;
mod revoke;
mod timeouts;
