//! The rig of the integration tests: real ZooKeeper servers in containers, a proxy that injects faults, and a
//! view from outside. See the modules for what each offers.

// Every test binary compiles this module for itself and uses only a part of it.
#![allow(dead_code, unused_imports, unreachable_pub)]

pub mod certificates;
pub mod container;
pub mod curator;
pub mod docker;
pub mod elsewhere;
pub mod ensemble;
pub mod four_letter;
pub mod leftovers;
pub mod network;
pub mod observer;
pub mod polls;
pub mod proxy;
pub mod runtime;
pub mod server;
pub mod waiting;

pub use elsewhere::Elsewhere;
pub use ensemble::Ensemble;
pub use observer::Observer;
pub use proxy::{Fault, How, OneShot, OpCode, Proxy, Session};
pub use server::ZooKeeper;
pub use waiting::{eventually, unique_path, until, within};
