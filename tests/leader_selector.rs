//! The recipe `LeaderSelector` on real ZooKeeper servers.
#![cfg(all(feature = "integration", feature = "leader-selector"))]

mod scene;
mod support;

/// One idea a file; `words` holds what they share.
mod leader_selector {
    mod basics;
    mod faults;
    mod lost_replies;
    mod permission;
    mod words;
}
