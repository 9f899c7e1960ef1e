//! Apache Curator's coordination recipes for async Rust, on ZooKeeper.
//!
//! Leader election today; locks, barriers, queues and a throughput balancer follow, all on Curator's own znodes, so that
//! Java services and Rust services stand in one line. What a recipe hands out is the truth about what you hold: a value
//! with a fencing token, a `lost()` future, and an `is_held()` that compares the clock each time it is asked.
//!
//! # Which recipe when
//!
//! | you want | use |
//! |---|---|
//! | one of many processes to lead until it goes | [`leader_latch`] |
//!
//! # Getting started
//!
//! ```no_run
//! use std::time::Duration;
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::leader_latch::LeaderLatch;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("zk1:2181,zk2:2181,zk3:2181").session_timeout(Duration::from_secs(10)).connect().await?;
//! let latch = LeaderLatch::builder(&client, "/my-service/leader").id("worker-7").start()?;
//! let leadership = latch.wait_for_leadership().await?;
//! println!("leading with fencing token {}", leadership.fencing_token());
//! leadership.lost().await;
//! # Ok(())
//! # }
//! ```
//!
//! One [`Client`] serves a process. It opens a new session when the old one ends, and every recipe takes its place again by
//! itself; nothing has to be rebuilt by hand.
//!
//! # The failure contract
//!
//! T is the session timeout that the servers granted.
//!
//! | recipe | `Suspended` | `Reconnected`, same session | `Lost` | own node deleted by another | reply lost | process stopped > T |
//! |---|---|---|---|---|---|---|
//! | `LeaderLatch` | [`Standard`](ErrorPolicy::Standard): leadership ends. [`Session`](ErrorPolicy::Session): it lasts until the lease is over, never past T | same node, looked up; `Standard`: leads again with the same token, as a new term | leadership is over; a new node with the next session | the leader hears of it and stands in line again; a waiter too; nobody is promoted twice. For the length of a notification the old leader (or a waiter that was deleted in the same transaction after it) may believe to lead: its fence no longer stands | create: found again by its name, or made anew; never two nodes. Delete: repeated until the node is gone | at the first look after waking `is_held()` is false |
//!
//! Three things hold for every recipe:
//!
//! * **Time.** What is held ends, by the clock, before the ensemble can have given it to somebody else. The clock goes on
//!   while the process is stopped and while the machine sleeps. A virtual machine that is paused or restored from a
//!   snapshot cannot know: only a fence covers that.
//! * **Fences.** A [`Fence`] put into a [`Transaction`] makes the ensemble itself check, in the same transaction, that its
//!   author still holds. A fencing token does the same for any other store that refuses smaller ones than it has seen.
//! * **Cancellation.** Every future may be dropped at any await; `# Cancel safety` says what that means for each. What is
//!   dropped leaves no node behind once the connection is back.
//!
//! # Feature flags
//!
//! | feature | default | what |
//! |---|---|---|
//! | `leader-latch` | yes | [`leader_latch`] |
//! | `backoff` | | a `backoff::ExponentialBackoff` becomes a [`RetryPolicy`] |
//! | `tls` | | encrypted connections |
//! | `sasl-digest-md5` | | SASL authentication |
//!
//! # Logs
//!
//! Events go through `tracing`, under `zookeeper_recipes`: sessions opened and over (`session`, `reason`), leadership
//! (`path`, `id`, `token`), deletes that are tried again (`target`), and every error that no caller awaits (`error`, `kind`),
//! which [`Client::last_error`] keeps as well.

mod backend;
// Without any recipe, the half of the client that only recipes need has no user.
#[cfg_attr(not(feature = "leader-latch"), allow(dead_code))]
mod client;
#[cfg(feature = "leader-latch")]
mod contender;
#[cfg(feature = "leader-latch")]
pub mod leader_latch;
#[cfg_attr(not(feature = "leader-latch"), allow(dead_code))]
mod path;
// The rig of the integration tests, for the tests of the backend.
#[cfg(all(test, feature = "integration"))]
#[path = "../tests/support/mod.rs"]
mod support;
mod types;

#[cfg(feature = "sasl-digest-md5")]
pub use client::Sasl;
#[cfg(feature = "tls")]
pub use client::Tls;
pub use client::{
    Client, ClientBuilder, ConnectionState, ConnectionStateListener, ConnectionStates, Error, ErrorKind, ErrorPolicy,
    Fence, Heartbeat, InvalidRetryPolicy, Lagged, ListenerHandle, RequestCounts, RetryPolicy, Transaction,
    TransactionResult,
};
pub use types::{Acl, CreateMode, Permissions, Stat};

/// The examples of the README are compiled like all others.
#[cfg(all(doctest, feature = "leader-latch"))]
#[doc = include_str!("../README.md")]
mod readme {}
