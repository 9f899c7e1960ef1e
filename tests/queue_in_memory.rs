//! The recipe `DistributedQueue` on an ensemble in memory: every failure, at every step, under a paused clock.
#![cfg(feature = "queue")]

mod in_memory;

/// One idea a file; `scene` holds what they share.
mod queue_in_memory {
    mod ack_first;
    mod basics;
    mod bounded;
    mod cancellation;
    mod competing;
    mod dead_letters;
    mod deleted;
    mod events;
    mod expiry;
    mod freeze;
    mod handler;
    mod identity;
    mod input;
    mod limits;
    mod lost_replies;
    mod many;
    mod order;
    mod permission;
    mod requests;
    mod scene;
    mod suspended;
}
