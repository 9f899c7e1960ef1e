//! The recipe `DistributedQueue` on an ensemble in memory: every failure, at every step, under a paused clock.

mod ack_first;
mod basics;
mod bounded;
mod cancellation;
mod competing;
mod counting;
mod dead_letters;
mod deleted;
mod events;
mod expiry;
mod fixture;
mod freeze;
mod grace;
mod handler;
mod identity;
mod input;
mod limits;
mod lost_replies;
mod many;
mod order;
mod permission;
mod requests;
mod retry;
mod shared;
mod suspended;
mod too_large;
