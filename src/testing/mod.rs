//! A ZooKeeper ensemble in memory that fails on command, for testing your service and for experiments without a server.
//! It corresponds to Curator's `TestingServer`, without Java.
//!
//! Needs the feature `testing`, usually as a dev-dependency (by `path` or `git`, as the crate is not published yet):
//!
//! ```toml
//! [dev-dependencies]
//! zookeeper-recipes = { path = "../zookeeper-recipes", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! Time is tokio's. Under a paused clock (`start_paused = true`) a minute of session timeouts takes milliseconds. On a
//! current-thread runtime the same seed gives the same history.
//!
//! # Testing a service
//!
//! The service gets a client of the test server instead of a real one. This service works while it leads:
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
//!     let client = Client::builder_for_testing(&server)
//!         .session_timeout(Duration::from_secs(10))
//!         .connect()
//!         .await?;
//!     let flag = Arc::new(AtomicBool::new(false));
//!     // The service pauses while its client is frozen, like all code of a
//!     // stopped process.
//!     server.spawn(&client, serve(client.clone(), Arc::clone(&flag)));
//!     clients.push(client);
//!     busy.push(flag);
//! }
//! let works = |worker: usize| busy[worker].load(Ordering::SeqCst);
//! server.until(|| works(0) != works(1)).await;
//! let (leader, other) = if works(0) { (0, 1) } else { (1, 0) };
//!
//! // The leader's process is stopped (SIGSTOP) for a minute: the other
//! // worker takes over.
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
//! # Testing a service that keeps to a share
//!
//! A `ThroughputBalancer` and its limiter use the same clock, so a test can count what happens in a second. Here the
//! service sends as fast as its share allows. All services together must not exceed the maximum:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use std::time::Duration;
//!
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::limiter::ShareLimiter;
//! use zookeeper_recipes::testing::TestingServer;
//! use zookeeper_recipes::throughput_balancer::{
//!     ThroughputBalancer, set_max_throughput,
//! };
//!
//! type Error = Box<dyn std::error::Error + Send + Sync>;
//!
//! const BALANCER: &str = "/service/throughput";
//!
//! // The service. Closing its limiter ends it.
//! async fn serve(
//!     client: Client,
//!     limiter: ShareLimiter,
//!     sent: Arc<AtomicU64>,
//! ) -> Result<(), Error> {
//!     let member = ThroughputBalancer::builder(&client, BALANCER)
//!         .limiter(&limiter)
//!         .join()
//!         .await?;
//!     while limiter.acquire(1).await.is_ok() {
//!         sent.fetch_add(1, Ordering::SeqCst);
//!     }
//!     member.leave().await;
//!     Ok(())
//! }
//!
//! // Its test. (`#[tokio::test(start_paused = true)]`)
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Error> {
//! let server = TestingServer::start();
//! set_max_throughput(&server.client().await?, BALANCER, 1_000).await?;
//! let sent = Arc::new(AtomicU64::new(0)); // by all services together
//! let (mut clients, mut limiters) = (Vec::new(), Vec::new());
//! let mut services = Vec::new();
//! for _ in 0..2 {
//!     let (client, limiter) = (server.client().await?, ShareLimiter::new(0));
//!     let work = serve(client.clone(), limiter.clone(), Arc::clone(&sent));
//!     // It pauses while its client is frozen, like all code of a stopped
//!     // process.
//!     services.push(server.spawn(&client, work));
//!     clients.push(client);
//!     limiters.push(limiter);
//! }
//! let rates = || [limiters[0].rate(), limiters[1].rate()];
//! server.until(|| rates() == [500, 500]).await;
//!
//! // One process is stopped (SIGSTOP) for longer than its session timeout:
//! // the other one gets everything.
//! server.freeze_client(&clients[0]);
//! server.until(|| rates() == [0, 1_000]).await;
//!
//! // It resumes, and no second sees more than the maximum (plus what each
//! // limiter grants at once, 11 at most).
//! server.thaw_client(&clients[0]);
//! for _ in 0..10 {
//!     let before = sent.load(Ordering::SeqCst);
//!     tokio::time::sleep(Duration::from_secs(1)).await;
//!     let sent = sent.load(Ordering::SeqCst) - before;
//!     assert!((1..=1_022).contains(&sent), "{sent}");
//! }
//! assert_eq!(rates(), [500, 500]);
//!
//! // One is shut down.
//! limiters[1].close();
//! services.remove(1).await??;
//! server.until(|| rates() == [1_000, 0]).await;
//! assert!(server.panics().is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # What is simulated
//!
//! The servers and the network are simulated. The client is the same as for real servers, and the two exchange
//! ZooKeeper's own frames. [`TestingServer::listen`] serves the same ensemble on TCP sockets, to clients in any
//! language.
//!
//! The ensemble follows ZooKeeper 3.9: sessions that expire, zxids, stats, ephemeral, sequential and container nodes,
//! nodes with a time to live, watches, transactions, versions, limits, and replicas that lag. The project's own tests
//! run the same scenarios and random operations on it and on real servers.
//!
//! Its servers hold no elections. It has no quotas, and `digest` is the only scheme for credentials.

mod builder;
pub(crate) mod ensemble;
mod inspect;
mod levers;
mod listen;
pub(crate) mod scheduler;
mod server;
mod target;
mod task;

pub use self::builder::TestingServerBuilder;
pub use self::levers::Data;
pub use self::listen::Listening;
pub use self::server::TestingServer;
pub use self::target::Target;
pub use self::task::{Task, TaskGone};
pub use crate::engine::Event as WatchEvent;
pub use crate::testing::ensemble::{Dialect, Loss, Operation, Record, RecordKind, SessionInfo};
