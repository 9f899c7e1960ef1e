//! The recipe `DistributedQueue` on real ZooKeeper servers.
#![cfg(all(feature = "integration", feature = "queue"))]

mod scene;
mod support;

/// One idea a file; `words` holds what they share.
mod queue {
    mod basics;
    mod expiry;
    mod identity;
    mod limits;
    mod lost_replies;
    mod processes;
    mod requests;
    mod servers;
    mod soak;
    mod words;
}
