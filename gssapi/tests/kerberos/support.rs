//! What these tests take of the rig of the root's tests: servers in containers, a proxy, certificates.

// Only a part of it is used.
#![allow(dead_code, unused_imports, unreachable_pub)]

#[path = "../../../tests/support/certificates.rs"]
pub mod certificates;
#[path = "../../../tests/support/container.rs"]
pub mod container;
#[path = "../../../tests/support/docker.rs"]
pub mod docker;
#[path = "../../../tests/support/four_letter.rs"]
pub mod four_letter;
#[path = "../../../tests/support/leftovers.rs"]
pub mod leftovers;
#[path = "../../../tests/support/proxy/mod.rs"]
pub mod proxy;
#[path = "../../../tests/support/runtime.rs"]
pub mod runtime;
#[path = "../../../tests/support/server.rs"]
pub mod server;
#[path = "../../../tests/support/waiting.rs"]
pub mod waiting;

pub use proxy::{Fault, Proxy};
pub use server::ZooKeeper;
pub use waiting::{eventually, unique_path, until, within};
