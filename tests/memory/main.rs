//! The recipes on an ensemble in memory: every failure, at every step, under a paused clock. No test here needs a
//! server.

mod fixture;
#[cfg(feature = "leader-latch")]
#[path = "../support/latches.rs"]
mod latches;
#[cfg(feature = "leader-latch")]
#[path = "../support/states.rs"]
mod states;
#[allow(dead_code, unreachable_pub)]
#[path = "../support/waiting.rs"]
mod waiting;

#[cfg(all(
    feature = "leader-latch",
    feature = "leader-selector",
    feature = "mutex",
    feature = "read-write-lock",
    feature = "multi-lock",
    feature = "semaphore",
    feature = "double-barrier",
    feature = "barrier",
    feature = "persistent-node",
    feature = "queue"
))]
mod async_send_sync;
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
#[cfg(all(
    feature = "leader-latch",
    feature = "leader-selector",
    feature = "persistent-node",
    feature = "throughput-balancer",
    feature = "partition-assigner",
    feature = "json",
    feature = "serde"
))]
mod health_page;
#[cfg(all(
    feature = "inspect",
    feature = "leader-latch",
    feature = "mutex",
    feature = "read-write-lock",
    feature = "semaphore",
    feature = "queue"
))]
mod inspect;
#[cfg(all(feature = "inspect", feature = "json"))]
mod inspect_recorded;
#[cfg(all(
    feature = "inspect",
    feature = "serde",
    feature = "leader-latch",
    feature = "mutex",
    feature = "read-write-lock",
    feature = "semaphore",
    feature = "double-barrier",
    feature = "group-member",
    feature = "queue",
    feature = "throughput-balancer",
    feature = "partition-assigner"
))]
mod inspect_tree;
#[cfg(feature = "leader-latch")]
mod leader_latch;
#[cfg(feature = "leader-selector")]
mod leader_selector;
#[cfg(feature = "limiter")]
mod limiter;
#[cfg(all(
    feature = "atomic-long",
    feature = "cache",
    feature = "double-barrier",
    feature = "group-member",
    feature = "leader-latch",
    feature = "mutex",
    feature = "persistent-node",
    feature = "queue",
    feature = "read-write-lock",
    feature = "semaphore",
    feature = "service-discovery",
    feature = "shared-value"
))]
mod malformed;
#[cfg(all(
    feature = "metrics",
    feature = "leader-latch",
    feature = "leader-selector",
    feature = "mutex",
    feature = "read-write-lock",
    feature = "semaphore",
    feature = "queue",
    feature = "cache",
    feature = "throughput-balancer",
    feature = "partition-assigner"
))]
mod metrics;
#[cfg(all(feature = "multi-lock", feature = "read-write-lock"))]
mod multi_lock;
#[cfg(feature = "mutex")]
mod mutex;
#[cfg(feature = "partition-assigner")]
mod partition_assigner;
#[cfg(feature = "persistent-node")]
mod persistent_node;
#[cfg(all(feature = "inspect", feature = "json"))]
mod postmortem_recorded;
#[cfg(feature = "queue")]
mod queue;
#[cfg(feature = "read-write-lock")]
mod read_write_lock;
#[cfg(feature = "semaphore")]
mod semaphore;
#[cfg(feature = "service-discovery")]
mod service_discovery;
#[cfg(all(feature = "shared-value", feature = "json"))]
mod shared_value;
#[cfg(all(
    feature = "cache",
    feature = "leader-latch",
    feature = "leader-selector",
    feature = "mutex",
    feature = "queue",
    feature = "semaphore"
))]
mod spans;
#[cfg(all(feature = "leader-latch", feature = "leader-selector", feature = "throughput-balancer"))]
mod state_receiver;
#[cfg(feature = "leader-latch")]
mod testing;
#[cfg(feature = "throughput-balancer")]
mod throughput_balancer;
