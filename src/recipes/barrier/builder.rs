//! The options of a barrier.

use std::sync::Arc;

use super::Barrier;
use super::error::Error;
use crate::client::Client;

/// Every reader of the node receives its data. The limit is ample, and far below the megabyte that a node may hold.
const MAX_DATA_BYTES: usize = 64 * 1024;

/// Configures a [`Barrier`]; see [`Barrier::builder`].
#[derive(Debug, Clone)]
#[must_use = "there is no barrier before build()"]
pub struct BarrierBuilder {
    client: Client,
    path: String,
    data: Vec<u8>,
}

impl BarrierBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        BarrierBuilder { client: client.clone(), path, data: Vec::new() }
    }

    /// Sets the data of the node, such as the name of the process that set the barrier. At most 65 536 bytes; empty by
    /// default.
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Creates the barrier object. Sends no request.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path;
    /// [`Error::InvalidOption`]; [`Error::Closed`] if the client has been closed.
    pub fn build(self) -> Result<Barrier, Error> {
        self.client.open_path(&self.path).map_err(|error| Error::client(&self.path, error))?;
        let path: Arc<str> = self.path.into();
        if self.data.len() > MAX_DATA_BYTES {
            let why = format!("data of {} bytes; at most {MAX_DATA_BYTES} are allowed", self.data.len());
            return Err(Error::InvalidOption { path, why });
        }
        Ok(Barrier { client: self.client, path, data: self.data.into() })
    }
}
