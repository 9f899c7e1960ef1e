//! The client on an ensemble in memory, and where it needs no server that answers. Its behaviour with a real one is in
//! `tests/server`.

mod boxed;
mod create_parents;
mod delete;
mod delete_recursive;
mod input;
#[cfg(all(feature = "leader-latch", feature = "leader-selector", feature = "mutex", feature = "persistent-node"))]
mod log;
mod multi_get;
#[cfg(feature = "mutex")]
mod outage;
#[cfg(all(feature = "cache", feature = "leader-latch", feature = "mutex", feature = "shared-value"))]
mod read_only;
#[cfg(feature = "mutex")]
mod remaining_lease;
mod sasl;
#[cfg(feature = "mutex")]
mod server_list;
mod session_timeout;
mod too_large;
mod watch;
