//! The cache on an ensemble in memory.

mod basics;
mod decoding;
mod faults;
mod fixture;
mod freshness;
mod input;
mod old_servers;
mod permission;
mod requests;
mod subscribers;
mod unreadable;
