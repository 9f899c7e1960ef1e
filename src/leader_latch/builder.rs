//! The options of a latch.

use std::sync::Arc;

use super::error::Error;
use super::task::{self, Shared};
use super::{CloseMode, LeaderLatch};
use crate::client::Client;
use crate::contender::participants::MAX_ID_BYTES;
use crate::path;

/// The options of a [`LeaderLatch`]; see [`LeaderLatch::builder`].
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

    /// What others see of this participant, at most 65 536 bytes. Empty by default.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// What [`LeaderLatch::close`] does for listeners.
    pub fn close_mode(mut self, mode: CloseMode) -> Self {
        self.close_mode = mode;
        self
    }

    /// Enters the election in the background and returns at once, also while there is no connection, and also outside a
    /// runtime: the work is done on the client's.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path;
    /// [`Error::InvalidId`]; [`Error::Closed`] if the client has been closed.
    pub fn start(self) -> Result<LeaderLatch, Error> {
        path::validate(&self.path).map_err(|error| Error::client(&self.path, error.into()))?;
        let path: Arc<str> = self.path.into();
        if self.id.len() > MAX_ID_BYTES {
            return Err(Error::InvalidId { path, bytes: self.id.len(), max: MAX_ID_BYTES });
        }
        if *self.client.core().closing.borrow() {
            return Err(Error::Closed { path });
        }
        let shared = Arc::new(Shared::new(path, self.id, self.close_mode));
        let (stop, finished) = task::spawn(&self.client, &shared);
        Ok(LeaderLatch { client: self.client, shared, stop, finished })
    }
}
