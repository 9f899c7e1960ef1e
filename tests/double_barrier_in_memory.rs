//! The recipe `DoubleBarrier` on an ensemble in memory: every failure, at every step, under a paused clock.
#![cfg(feature = "double-barrier")]

mod in_memory;

/// One idea a file; `scene` holds what they share.
mod double_barrier_in_memory {
    mod basics;
    mod cancellation;
    mod client_end;
    mod deleted;
    mod expiry;
    mod freeze;
    mod input;
    mod late;
    mod lost_replies;
    mod requests;
    mod scene;
    mod timeouts;
}
