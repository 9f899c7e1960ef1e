//! The recipe `InterProcessMutex` on an ensemble in memory: every failure, at every step, under a paused clock.

mod basics;
mod cancellation;
mod client_end;
mod deleted;
mod exhausted;
mod expiry;
mod fixture;
mod freeze;
mod heartbeats;
mod input;
mod late_reconnect;
mod lost_replies;
mod permission;
mod reenter;
mod requests;
mod revoke;
mod suspended;
mod threads;
mod timeouts;
