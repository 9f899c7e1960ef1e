//! Tools that all layers above use. They depend on none of those layers.

pub(crate) mod backoff;
pub(crate) mod boxed;
pub(crate) mod clock;
#[cfg(any(feature = "throughput-balancer", feature = "partition-assigner"))]
pub(crate) mod filling;
pub(crate) mod mutex;
#[cfg(any(feature = "partition-assigner", feature = "inspect"))]
pub(crate) mod natural;
pub(crate) mod panic;
pub(crate) mod path;
pub(crate) mod random;
pub(crate) mod serializer;
pub(crate) mod state_receiver;
pub(crate) mod task_set;
#[cfg(feature = "serde")]
pub(crate) mod text;
pub(crate) mod wait;
pub(crate) mod work;
pub(crate) mod znode;
