//! The recipes, a directory each. Users, and the code of other directories, name them at the root of the
//! crate.

#[cfg(feature = "atomic-long")]
pub mod atomic_long;
#[cfg(feature = "barrier")]
pub mod barrier;
#[cfg(feature = "cache")]
pub mod cache;
#[cfg(feature = "double-barrier")]
pub mod double_barrier;
#[cfg(any(feature = "throughput-balancer", feature = "partition-assigner"))]
pub(crate) mod elected;
pub(crate) mod error;
#[cfg(feature = "group-member")]
pub mod group_member;
#[cfg(feature = "leader-latch")]
pub mod leader_latch;
#[cfg(feature = "leader-selector")]
pub mod leader_selector;
#[cfg(feature = "limiter")]
pub mod limiter;
#[cfg(any(feature = "mutex", feature = "read-write-lock", feature = "semaphore"))]
pub mod lock;
#[cfg(feature = "multi-lock")]
pub mod multi_lock;
#[cfg(feature = "mutex")]
pub mod mutex;
#[cfg(feature = "partition-assigner")]
pub mod partition_assigner;
#[cfg(feature = "persistent-node")]
pub mod persistent_node;
#[cfg(feature = "queue")]
pub mod queue;
#[cfg(feature = "read-write-lock")]
pub mod read_write_lock;
#[cfg(feature = "semaphore")]
pub mod semaphore;
#[cfg(feature = "service-discovery")]
pub mod service_discovery;
#[cfg(feature = "shared-value")]
pub mod shared_value;
#[cfg(feature = "throughput-balancer")]
pub mod throughput_balancer;
