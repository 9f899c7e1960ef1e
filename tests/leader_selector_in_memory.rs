//! The recipe `LeaderSelector` on an ensemble in memory: terms, and everything that can end them, under a paused clock.
#![cfg(feature = "leader-selector")]

mod in_memory;

/// One idea a file; `scene` holds what they share.
mod leader_selector_in_memory {
    mod basics;
    mod close;
    mod expiry;
    mod failing;
    mod interrupt;
    mod lost_replies;
    mod permission;
    mod requests;
    mod requeue;
    mod scene;
    mod yielding;
}
