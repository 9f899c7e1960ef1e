//! The recipe `PersistentNode` on an ensemble in memory: every failure, under a paused clock, and what a node costs.

mod basics;
mod client_end;
mod closing;
mod connection;
mod deleted;
mod expiry;
pub(crate) mod fixture;
mod foreign;
mod freeze;
mod input;
mod lost_replies;
mod permission;
mod requests;
mod sequential;
mod too_large;
mod ttl;
