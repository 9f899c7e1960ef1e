//! The recipe `DistributedQueue` on real ZooKeeper servers.
#![cfg(all(feature = "integration", feature = "queue"))]

mod scene;
mod support;

/// One idea a file; `words` holds what they share.
mod queue {
    mod basics;
    mod expiry;
    mod lost_replies;
    mod requests;
    mod soak;
    mod words;
}
