//! The recipe `InterProcessMutex` on an ensemble in memory: every failure, at every step, under a paused clock.
#![cfg(feature = "mutex")]

mod in_memory;

/// One idea a file; `scene` holds what they share.
mod mutex_in_memory {
    mod basics;
    mod cancellation;
    mod client_end;
    mod deleted;
    mod exhausted;
    mod expiry;
    mod freeze;
    mod heartbeats;
    mod input;
    mod lost_replies;
    mod permission;
    mod reenter;
    mod requests;
    mod revoke;
    mod scene;
    mod suspended;
    mod threads;
    mod timeouts;
}
