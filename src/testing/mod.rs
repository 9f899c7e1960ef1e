//! A ZooKeeper in memory, with levers for everything that goes wrong: for tests of your own service, and for trying things
//! without a server. Curator's `TestingServer`, without Java and without sockets.
//!
//! Needs the feature `testing`, best as a dev-dependency (by `path` or `git`, as it is not published yet):
//!
//! ```toml
//! [dev-dependencies]
//! zookeeper-recipes = { path = "../zookeeper-recipes", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! Time is tokio's. Under a paused clock (`start_paused = true`) a minute of session timeouts takes milliseconds, and on a
//! runtime of one thread the same seed gives the same history.
//!
//! # Testing a service
//!
//! The service gets a client of the server instead of a real one. Here it is a worker that works while it leads:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::time::Duration;
//!
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::leader_latch::LeaderLatch;
//! use zookeeper_recipes::testing::TestingServer;
//!
//! type Error = Box<dyn std::error::Error + Send + Sync>;
//!
//! // The service.
//! async fn serve(client: Client, busy: Arc<AtomicBool>) -> Result<(), Error> {
//!     let latch = LeaderLatch::builder(&client, "/service/leader").start()?;
//!     loop {
//!         let leadership = latch.wait_for_leadership().await?;
//!         busy.store(true, Ordering::SeqCst);
//!         leadership.lost().await;
//!         busy.store(false, Ordering::SeqCst);
//!     }
//! }
//!
//! // Its test. (`#[tokio::test(start_paused = true)]`)
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Error> {
//! let server = TestingServer::start();
//! let (mut clients, mut busy) = (Vec::new(), Vec::new());
//! for _ in 0..2 {
//!     let client = Client::builder_for(&server).session_timeout(Duration::from_secs(10)).connect().await?;
//!     let flag = Arc::new(AtomicBool::new(false));
//!     // The service stops when its client is frozen, as code of the same process does.
//!     server.spawn(&client, serve(client.clone(), Arc::clone(&flag)));
//!     clients.push(client);
//!     busy.push(flag);
//! }
//! let works = |worker: usize| busy[worker].load(Ordering::SeqCst);
//! server.until(|| works(0) != works(1)).await;
//! let (leader, other) = if works(0) { (0, 1) } else { (1, 0) };
//!
//! // The leader's process is stopped (SIGSTOP) for a minute: the other one takes over.
//! server.freeze_client(&clients[leader]);
//! server.until(|| works(other)).await;
//! tokio::time::sleep(Duration::from_secs(60)).await;
//! server.thaw_client(&clients[leader]);
//! server.until(|| !works(leader)).await;
//! assert!(works(other));
//! # Ok(())
//! # }
//! ```
//!
//! # What it is, and what it is not
//!
//! It follows ZooKeeper 3.9, and the project's own tests run the same scenarios and random operations on it and on real
//! servers: sessions that expire, zxids, stats, ephemeral, sequential and container nodes, watches, transactions, versions,
//! limits, replicas that lag. Its servers hold no elections, and it has no quotas and no credentials: [`TestingServer::deny`]
//! stands for what an ACL forbids.

mod builder;
mod inspect;
mod levers;
mod server;
mod target;
mod task;

pub use self::builder::TestingServerBuilder;
pub use self::levers::{Data, Loss};
pub use self::server::TestingServer;
pub use self::target::Target;
pub use self::task::{Task, TaskGone};
pub use crate::backend::Event as WatchEvent;
pub use crate::backend::memory::{Happening, Operation, Record, SessionInfo};
