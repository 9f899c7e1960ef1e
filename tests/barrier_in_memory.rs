//! The recipe `Barrier` on an ensemble in memory: every failure, at every step, under a paused clock.
#![cfg(feature = "barrier")]

mod in_memory;

/// One idea a file; `scene` holds what they share.
mod barrier_in_memory {
    mod basics;
    mod faults;
    mod input;
    mod scene;
    mod watches;
}
