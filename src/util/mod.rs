//! Tools for every layer above. They depend on none of those layers.

pub(crate) mod backoff;
pub(crate) mod boxed;
pub(crate) mod clock;
pub(crate) mod mutex;
pub(crate) mod panic;
pub(crate) mod path;
pub(crate) mod random;
#[cfg(any(feature = "queue", feature = "cache"))]
pub(crate) mod serializer;
#[cfg(any(feature = "leader-latch", feature = "leader-selector", feature = "persistent-node"))]
pub(crate) mod state_receiver;
pub(crate) mod task_set;
#[cfg(feature = "serde")]
pub(crate) mod text;
pub(crate) mod wait;
pub(crate) mod znode;
