//! Apache Curator's coordination recipes for async Rust, on ZooKeeper.

mod backend;
mod client;
#[cfg(feature = "leader-latch")]
mod contender;
#[cfg(feature = "leader-latch")]
pub mod leader_latch;
mod types;

pub use client::*;
pub use types::{Acl, CreateMode, Permissions, Stat};
