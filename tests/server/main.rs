//! The recipes and the client on real ZooKeeper servers in containers, with a proxy that injects faults and a view from
//! outside.

mod fixture;
#[path = "../support/latches.rs"]
mod latches;
#[path = "../support/states.rs"]
mod states;
#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "atomic-long")]
mod atomic_long;
#[cfg(feature = "barrier")]
mod barrier;
#[cfg(feature = "cache")]
mod cache;
mod client;
#[cfg(feature = "double-barrier")]
mod double_barrier;
#[cfg(feature = "group-member")]
mod group_member;
#[cfg(all(feature = "inspect", feature = "mutex"))]
mod inspect;
#[cfg(feature = "interop")]
mod interop;
#[cfg(feature = "leader-latch")]
mod leader_latch;
#[cfg(feature = "leader-selector")]
mod leader_selector;
#[cfg(feature = "leader-latch")]
mod lease;
#[cfg(all(feature = "metrics", feature = "mutex", feature = "queue", feature = "cache", feature = "leader-latch"))]
mod metrics;
#[cfg(feature = "multi-lock")]
mod multi_lock;
#[cfg(feature = "mutex")]
mod mutex;
#[cfg(feature = "partition-assigner")]
mod partition_assigner;
#[cfg(feature = "persistent-node")]
mod persistent_node;
#[cfg(feature = "queue")]
mod queue;
#[cfg(feature = "read-write-lock")]
mod read_write_lock;
mod rig;
#[cfg(all(feature = "tls", feature = "sasl-digest-md5", feature = "leader-latch"))]
mod security;
#[cfg(feature = "semaphore")]
mod semaphore;
#[cfg(feature = "service-discovery")]
mod service_discovery;
#[cfg(feature = "shared-value")]
mod shared_value;
#[cfg(all(feature = "queue", feature = "mutex", feature = "cache", feature = "persistent-node"))]
mod siege;
#[cfg(all(feature = "throughput-balancer", feature = "limiter"))]
mod throughput_balancer;
