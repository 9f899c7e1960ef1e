//! The recipe `LeaderSelector` on an ensemble in memory: terms, and everything that can end them, under a paused clock.

mod basics;
mod boxed;
mod close;
mod expiry;
mod failing;
pub(crate) mod fixture;
mod interrupt;
mod lost_replies;
mod permission;
mod requests;
mod requeue;
mod yielding;
