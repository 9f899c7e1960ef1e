//! The recipe `LeaderLatch` on an ensemble in memory: what real servers show too rarely, and what a long line costs.
#![cfg(feature = "leader-latch")]

mod in_memory;

/// One idea a file; `scene` holds what they share.
mod leader_latch_in_memory {
    mod closing;
    mod deleted;
    mod expiry;
    mod logs;
    mod permission;
    mod requests;
    mod scene;
}
