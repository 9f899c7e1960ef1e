//! A barrier that blocks all waiting processes until it is removed, compatible with Curator's `DistributedBarrier`.
//!
//! The barrier is one persistent node. It is set as long as that node exists: it survives the crash of any process, and
//! ends when a client removes it.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::barrier::Barrier;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let barrier = Barrier::new(&client, "/my-service/maintenance")?;
//! barrier.set().await?; // from now on `wait` blocks
//! // ...
//! barrier.remove().await?; // releases all waiting processes
//!
//! // In another process:
//! barrier.wait().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # When things fail
//!
//! | event | what happens |
//! |---|---|
//! | connection `Suspended` | [`wait`](Barrier::wait) keeps waiting. |
//! | | [`set`](Barrier::set) and [`remove`](Barrier::remove) retry as the client's retry policy allows. |
//! | `Reconnected`, same session | `wait` checks the barrier again. |
//! | session `Lost` | Nothing is lost: the barrier belongs to no session. `wait` continues with the next one. |
//! | node deleted by another client | The barrier is removed. |
//! | reply lost | `set` is repeated until it is done; `remove` too, unless the barrier may have been set again since. |
//! | process stopped for longer than the session timeout | `wait` checks the barrier again. |

mod builder;
mod error;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

pub use self::builder::BarrierBuilder;
pub use self::error::Error;
use crate::client::{self, Client, ErrorKind};
use crate::engine;

/// A barrier across processes. Cheap to clone; any number of tasks may use one object.
///
/// ```no_run
/// use std::time::Duration;
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::barrier::{Barrier, Error};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let barrier = Barrier::builder(&client, "/my-service/maintenance")
///     .data("set by deploy-42")
///     .build()?;
/// if !barrier.wait_timeout(Duration::from_secs(30)).await? {
///     println!("the barrier is still set");
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "DistributedBarrier")]
#[derive(Debug, Clone)]
pub struct Barrier {
    client: Client,
    path: Arc<str>,
    data: Arc<[u8]>,
}

impl Barrier {
    /// Creates the object for the barrier at `path`, with default options. Sends no request.
    ///
    /// # Errors
    /// As [`BarrierBuilder::build`].
    pub fn new(client: &Client, path: impl Into<String>) -> Result<Self, Error> {
        Barrier::builder(client, path).build()
    }

    /// Returns a builder for the barrier at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> BarrierBuilder {
        BarrierBuilder::new(client, path.into())
    }

    /// Sets the barrier. Succeeds if it is set already.
    ///
    /// # Errors
    /// [`Error::Client`] if a permission is missing, or if there was no connection for as long as the client's retry
    /// policy allows; in that second case the barrier may have been set. [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Once polled, the barrier may be set even if the future is dropped.
    #[doc(alias = "setBarrier")]
    pub async fn set(&self) -> Result<(), Error> {
        let done = self.client.core().ensure_node("set", &self.path, &self.data).await;
        done.map_err(|error| Error::client(&self.path, error))
    }

    /// Removes the barrier, which releases all waiting tasks. Succeeds if the barrier is not set.
    ///
    /// # Errors
    /// As [`set`](Self::set). [`ErrorKind::OutcomeUnknown`] if the answer was lost and the node that exists now may be
    /// a barrier that was set since: it is left alone.
    ///
    /// # Cancel safety
    /// Once polled, the barrier may be removed even if the future is dropped.
    #[doc(alias = "removeBarrier")]
    pub async fn remove(&self) -> Result<(), Error> {
        match self.client.delete(&self.path, None).await {
            Err(error) if error.kind() != ErrorKind::NoNode => Err(Error::client(&self.path, error)),
            _ => Ok(()),
        }
    }

    /// Waits until the barrier is removed, without a time limit, even across the loss of the connection or of the
    /// session. If the barrier is not set, returns as soon as the servers answer.
    ///
    /// # Errors
    /// [`Error::Client`] if the barrier cannot be watched, for example because a permission is missing;
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: the watch is removed.
    #[doc(alias = "waitOnBarrier")]
    pub async fn wait(&self) -> Result<(), Error> {
        // A caller that loops over barriers that are not set must still yield to other tasks.
        tokio::task::coop::consume_budget().await;
        self.gone(&mut false).await
    }

    /// Waits as [`wait`](Self::wait) does, but no longer than `timeout`. Returns false if the barrier was still set
    /// then, according to the last answer of the servers.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if no server answered in time. Otherwise as [`wait`](Self::wait).
    ///
    /// # Cancel safety
    /// As [`wait`](Self::wait).
    #[doc(alias = "waitOnBarrier")]
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        tokio::task::coop::consume_budget().await;
        let mut seen = false;
        let waited = match Instant::now().checked_add(timeout) {
            Some(deadline) => timeout_at(deadline, self.gone(&mut seen)).await,
            // A deadline that the clock cannot represent is no deadline.
            None => Ok(self.gone(&mut seen).await),
        };
        match waited {
            Ok(gone) => gone.map(|()| true),
            Err(_) if seen => Ok(false),
            Err(_) => {
                let why = format!("no answer within {timeout:?}");
                Err(self.error(client::Error::at(ErrorKind::TimedOut, "wait at", &self.path, why)))
            }
        }
    }

    /// Returns the path of the barrier.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Resolves when the barrier is not set; sets `seen` once it was seen to be set.
    async fn gone(&self, seen: &mut bool) -> Result<(), Error> {
        let core = self.client.core();
        let full = core.full_path(&self.path);
        loop {
            let (session, connection) = core.connected().await.map_err(|error| self.error(error))?;
            // A lagging server may not have seen the barrier yet, so a sync makes it catch up first. A read of the data
            // leaves no watch if the node does not exist.
            let (sync, read) = futures::join!(session.sync(&full), session.watch_data(&full));
            let watch = match sync.and(read) {
                Ok((_, _, watch)) => watch,
                Err(engine::Error::NoNode) => return Ok(()),
                Err(error) => {
                    let failed = |error| self.error(client::Error::from_engine("wait at", &self.path, error));
                    session.wait_if_transient(error, connection).await.map_err(failed)?;
                    continue;
                }
            };
            *seen = true;
            session.changed(watch, connection).await;
        }
    }

    fn error(&self, error: client::Error) -> Error {
        Error::client(&self.path, error)
    }
}
