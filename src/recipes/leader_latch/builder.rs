//! The builder of a latch.

use std::sync::Arc;

use super::error::Error;
use super::task::{self, Shared};
use super::{CloseMode, LeaderLatch};
use crate::client::Client;
use crate::contender::participants::check_id;

/// Configures a [`LeaderLatch`]; see [`LeaderLatch::builder`].
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::leader_latch::{CloseMode, Error, LeaderLatch};
///
/// # fn example(client: &Client) -> Result<(), Error> {
/// let latch = LeaderLatch::builder(client, "/my-service/leader")
///     .id("worker-7")
///     .close_mode(CloseMode::NotifyLeader)
///     .start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before start()"]
pub struct LeaderLatchBuilder {
    client: Client,
    path: String,
    id: String,
    close_mode: CloseMode,
}

impl LeaderLatchBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        LeaderLatchBuilder { client: client.clone(), path, id: String::new(), close_mode: CloseMode::default() }
    }

    /// Sets the id that other clients read of this participant, at most 65 536 bytes. Default: empty.
    #[doc(alias = "setId")]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets what [`LeaderLatch::close`] does about listeners. Default: [`CloseMode::Silent`].
    pub fn close_mode(mut self, mode: CloseMode) -> Self {
        self.close_mode = mode;
        self
    }

    /// Enters the election in the background and returns at once, even while there is no connection. It may be called
    /// outside a runtime, as the latch runs on the runtime of the client.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if the path is malformed.
    /// [`Error::InvalidOption`] if the id is too long. [`Error::Closed`] if the client has been closed.
    pub fn start(self) -> Result<LeaderLatch, Error> {
        self.client.open_path(&self.path).map_err(|error| Error::client(&self.path, error))?;
        let path: Arc<str> = self.path.into();
        if let Err(why) = check_id(&self.id) {
            return Err(Error::InvalidOption { path, why });
        }
        let shared = Arc::new(Shared::new(path, self.id));
        let task = task::spawn(&self.client, &shared);
        Ok(LeaderLatch { client: self.client, shared, close_mode: self.close_mode, task })
    }
}
