//! The names of all znodes, without I/O. The recipes and the contender write them, and
//! [`inspect`](crate::inspect) reads them.

pub(crate) mod double_barrier;
pub(crate) mod group_member;
pub(crate) mod kazoo;
pub(crate) mod latch;
pub(crate) mod line;
pub(crate) mod partition_assigner;
pub(crate) mod parts;
pub(crate) mod persistent_node;
pub(crate) mod queue;
pub(crate) mod rank;
pub(crate) mod semaphore;
#[cfg(any(feature = "service-discovery", feature = "inspect"))]
pub(crate) mod service_discovery;
pub(crate) mod throughput_balancer;
