//! The recipes `DoubleBarrier` and `Barrier` on real ZooKeeper servers: what Curator's own tests of them cover, and what they
//! do not.
#![cfg(all(feature = "integration", feature = "double-barrier", feature = "barrier"))]

mod scene;
mod support;

/// One idea a file; `words` holds what they share.
mod barriers {
    mod double;
    mod expiry;
    mod lost_replies;
    mod requests;
    mod single;
    mod words;
}
