//! The recipe `ThroughputBalancer` on real ZooKeeper servers.
#![cfg(all(feature = "integration", feature = "throughput-balancer", feature = "limiter"))]

mod scene;
mod support;

/// One idea a file.
mod throughput_balancer {
    mod expiry;
    mod lost_replies;
    mod stopped;
    mod table;
    mod words;
}
