//! The recipe `DoubleBarrier` on an ensemble in memory: every failure, at every step, under a paused clock.

mod basics;
mod cancellation;
mod client_end;
mod deleted;
mod expiry;
mod fixture;
mod freeze;
mod input;
mod late;
mod lost_replies;
mod requests;
mod timeouts;
