//! The recipe `InterProcessMutex` on real ZooKeeper servers.
#![cfg(all(feature = "integration", feature = "mutex"))]

mod scene;
mod support;

/// One idea a file; `words` holds what they share.
mod mutex {
    mod basics;
    mod cancellation;
    mod cluster;
    mod deleted;
    mod expiry;
    mod lost_replies;
    mod no_server;
    mod requests;
    mod restart;
    mod revoke;
    mod stopped;
    mod words;
}
