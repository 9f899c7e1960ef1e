//! The recipe `ThroughputBalancer` on real ZooKeeper servers.
#![cfg(all(feature = "integration", feature = "throughput-balancer"))]

mod scene;
mod support;

/// One idea a file.
mod throughput_balancer {
    mod table;
}
