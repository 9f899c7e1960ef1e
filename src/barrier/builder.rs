//! The options of a barrier.

use std::sync::Arc;

use super::Barrier;
use super::error::Error;
use crate::client::Client;
use crate::path;

/// What a node holds travels to whoever reads it; this is plenty and far below the megabyte of a node.
const MAX_DATA_BYTES: usize = 64 * 1024;

/// The options of a [`Barrier`]; see [`Barrier::builder`].
#[derive(Debug, Clone)]
#[must_use = "there is no barrier before start()"]
pub struct BarrierBuilder {
    client: Client,
    path: String,
    data: Vec<u8>,
}

impl BarrierBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        BarrierBuilder { client: client.clone(), path, data: Vec::new() }
    }

    /// What the node holds when it is set, for people to see who did; at most 65 536 bytes. Empty by default.
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// The barrier. Nothing is sent by this.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path;
    /// [`Error::InvalidOption`]; [`Error::Closed`] if the client has been closed.
    pub fn start(self) -> Result<Barrier, Error> {
        path::validate(&self.path).map_err(|error| Error::client(&self.path, error.into()))?;
        let path: Arc<str> = self.path.into();
        if self.data.len() > MAX_DATA_BYTES {
            let why = format!("data of {} bytes; at most {MAX_DATA_BYTES} are allowed", self.data.len());
            return Err(Error::InvalidOption { path, why });
        }
        if self.client.is_closed() {
            return Err(Error::Closed { path });
        }
        Ok(Barrier { client: self.client, path, data: self.data.into() })
    }
}
