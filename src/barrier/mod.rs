//! A barrier that holds up whoever waits at it until it is removed: Curator's `DistributedBarrier`.
//!
//! It is one node, and stands as long as that exists: through any crash, until somebody removes it.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::barrier::Barrier;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let barrier = Barrier::new(&client, "/my-service/maintenance")?;
//! barrier.set().await?; // from now on everybody waits
//! // ...
//! barrier.remove().await?; // and now everybody goes on
//!
//! // Elsewhere:
//! barrier.wait().await?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod error;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};

pub use self::builder::BarrierBuilder;
pub use self::error::Error;
use crate::backend;
use crate::client::session::{Condition, Session};
use crate::client::{self, Client, ErrorKind, parents};
use crate::path::split;
use crate::types::CreateMode;

/// A barrier across processes. Cheap to clone; any number of tasks may use one object.
#[derive(Debug, Clone)]
pub struct Barrier {
    client: Client,
    path: Arc<str>,
    data: Arc<[u8]>,
}

impl Barrier {
    /// The barrier at `path`, with default options.
    ///
    /// # Errors
    /// As [`BarrierBuilder::start`].
    pub fn new(client: &Client, path: impl Into<String>) -> Result<Self, Error> {
        Barrier::builder(client, path).start()
    }

    /// The options of the barrier at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> BarrierBuilder {
        BarrierBuilder::new(client, path.into())
    }

    /// Puts the barrier up. That it stands already is fine.
    ///
    /// # Errors
    /// [`Error::Client`]: for want of permission, or when there was no connection for as long as the client's retry policy
    /// allows; then it may have been put up all the same. [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Polled once, it may be put up also if the future is dropped.
    pub async fn set(&self) -> Result<(), Error> {
        // A barrier that stands is one, whoever put it up: so this may be repeated as a read may.
        let put_up = |session: &Arc<Session>, full: &str| {
            let (session, full) = (Arc::clone(session), full.to_owned());
            async move { self.put_up(&session, &full).await }
        };
        let done = self.client.core().read("set", &self.path, put_up).await;
        done.map_err(|error| Error::client(&self.path, error))
    }

    async fn put_up(&self, session: &Arc<Session>, full: &str) -> Result<(), backend::Error> {
        let acls = &self.client.core().config.acls;
        loop {
            match session.create(full, &self.data, CreateMode::Persistent, acls).await {
                Ok(_) | Err(backend::Error::NodeExists) => return Ok(()),
                Err(backend::Error::NoNode) => match parents::create(session, split(full).0, acls).await {
                    // A parent can be taken away between two steps.
                    Ok(_) | Err(backend::Error::NoNode) => {}
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the barrier away, and lets everybody go on. That there is none is fine.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    /// Polled once, it may be taken away also if the future is dropped.
    pub async fn remove(&self) -> Result<(), Error> {
        match self.client.delete(&self.path, None).await {
            Err(error) if error.kind() != ErrorKind::NoNode => Err(Error::client(&self.path, error)),
            _ => Ok(()),
        }
    }

    /// Waits until there is no barrier, as long as it takes: also through the loss of the connection, or of a session. Returns at
    /// once if there is none.
    ///
    /// # Errors
    /// [`Error::Client`] if the barrier cannot be watched, such as for want of permission; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: the watch is removed.
    pub async fn wait(&self) -> Result<(), Error> {
        // A loop over barriers that are not there must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        self.gone(&mut false).await
    }

    /// As [`wait`](Self::wait), for no longer than `timeout`: false if the barrier stood still by then, as far as the servers
    /// have told.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if no server has told anything. Otherwise as [`wait`](Self::wait).
    ///
    /// # Cancel safety
    /// As [`wait`](Self::wait).
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<bool, Error> {
        tokio::task::coop::consume_budget().await;
        let mut seen = false;
        let waited = match Instant::now().checked_add(timeout) {
            Some(deadline) => timeout_at(deadline, self.gone(&mut seen)).await,
            // A time beyond the end of the clock is none.
            None => Ok(self.gone(&mut seen).await),
        };
        match waited {
            Ok(gone) => gone.map(|()| true),
            Err(_) if seen => Ok(false),
            Err(_) => {
                let message = format!("wait at {}: no answer within {timeout:?}", self.path);
                Err(self.error(client::Error::new(ErrorKind::TimedOut, message)))
            }
        }
    }

    /// The path of the barrier.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Resolves when there is no barrier; sets `seen` once there was one.
    async fn gone(&self, seen: &mut bool) -> Result<(), Error> {
        let core = self.client.core();
        let full = core.full_path(&self.path);
        loop {
            let session = core.connected_session().await.map_err(|error| self.error(error))?;
            let Condition::Connected(connection) = session.condition() else { continue };
            // A server that lags may not know of a barrier that stands already, so it is told to catch up first. A read of the
            // data leaves no watch where there is no node.
            let (sync, read) = futures::join!(session.sync(&full), session.watch_data(&full));
            let watch = match sync.and(read) {
                Ok((_, _, watch)) => watch,
                Err(backend::Error::NoNode) => return Ok(()),
                Err(error) if error.is_passing() => {
                    session.loss_known(connection).await;
                    continue;
                }
                Err(error) => {
                    return Err(self.error(client::Error::from_backend("wait at", &self.path, error)));
                }
            };
            *seen = true;
            let mut conditions = session.conditions();
            let disturbed = conditions.wait_for(|condition| *condition != Condition::Connected(connection));
            tokio::select! {
                biased;
                _ = watch => {}
                _ = disturbed.map(drop) => {}
            }
        }
    }

    fn error(&self, error: client::Error) -> Error {
        Error::client(&self.path, error)
    }
}
