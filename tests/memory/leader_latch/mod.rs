//! The recipe `LeaderLatch` on an ensemble in memory: every failure, under a paused clock, and what a long line costs.

mod basics;
mod boxed;
mod client_end;
mod closing;
mod deleted;
mod exhausted;
mod expiry;
pub(crate) mod fixture;
mod foreign;
mod herd;
mod leadership;
mod listeners;
mod logs;
mod lost_replies;
mod observe;
mod permission;
mod policy;
mod priority;
mod priority_failures;
mod requests;
mod resign;
mod resign_failures;
mod restart;
mod too_large;
mod transfer;
mod transfer_failures;
