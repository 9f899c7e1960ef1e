//! The recipe `LeaderLatch` on real ZooKeeper servers.
#![cfg(all(feature = "integration", feature = "leader-latch"))]

mod scene;
mod support;

/// One idea a file; `scene` holds what they share.
mod leader_latch {
    mod basics;
    mod callbacks;
    mod cancellation;
    mod client_end;
    mod cluster;
    mod crowd;
    mod deleted;
    mod exhausted;
    mod expiry;
    mod foreign;
    mod herd;
    mod lost_replies;
    mod observe;
    mod permission;
    mod policy;
    mod requests;
    mod restart;
    mod scene;
}
