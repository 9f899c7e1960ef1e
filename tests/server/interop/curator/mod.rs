//! Curator's own code and ours at one path, on a real server.
//!
//! `cargo test --all-features --test server curator -- --ignored` runs these tests. They need a JDK, and Debian's
//! `libcurator-recipes-java` and `libcurator-discovery-java`.

#[cfg(feature = "service-discovery")]
mod discovery;
#[cfg(feature = "leader-latch")]
mod latch;
mod locks;
#[cfg(any(feature = "atomic-long", feature = "shared-value"))]
mod numbers;
mod peer;
#[cfg(feature = "queue")]
mod queues;
#[cfg(feature = "read-write-lock")]
mod two;

use self::peer::Curator;
