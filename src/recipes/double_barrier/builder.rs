//! The options of a double barrier.

use std::sync::Arc;

use super::DoubleBarrier;
use super::error::Error;
use super::znodes::Znodes;
use crate::client::Client;
use crate::layout::double_barrier::READY;
use crate::util::path;

/// The limit for a member's data. It is far below the megabyte that a node may hold, as every reader receives it.
const MAX_DATA_BYTES: usize = 64 * 1024;
/// Bytes that the check of one member adds to the request that opens a round, besides the path: a name and a header.
const CHECK_BYTES: usize = 64;

/// Configures a [`DoubleBarrier`]; see [`DoubleBarrier::builder`].
#[derive(Debug, Clone)]
#[must_use = "there is no barrier before build()"]
pub struct DoubleBarrierBuilder {
    client: Client,
    path: String,
    members: usize,
    data: Vec<u8>,
}

impl DoubleBarrierBuilder {
    pub(super) fn new(client: &Client, path: String, members: usize) -> Self {
        DoubleBarrierBuilder { client: client.clone(), path, members, data: Vec::new() }
    }

    /// Sets the data of this member's nodes, such as the name of its process. At most 65 536 bytes; empty by default.
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Creates the barrier object. Sends no request; the first [`enter`](DoubleBarrier::enter) does.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path;
    /// [`Error::InvalidOption`] for zero members, for more members than one transaction can check (about a megabyte of
    /// paths), and for too much data; [`Error::Closed`] if the client has been closed.
    pub fn build(self) -> Result<DoubleBarrier, Error> {
        self.client.open_path(&self.path).map_err(|error| Error::client(&self.path, error))?;
        let path: Arc<str> = self.path.into();
        let invalid = |why: String| Err(Error::InvalidOption { path: Arc::clone(&path), why });
        if self.members == 0 {
            return invalid("0 members; must be at least 1".into());
        }
        let core = self.client.core();
        let dir: Arc<str> = core.full_path(&path).into();
        let most = core.config.max_request_bytes / (dir.len() + CHECK_BYTES) / 2;
        if self.members > most {
            let why = format!(
                "{} members; at most {most} with this path, as one request must name all of them (see \
                 ClientBuilder::max_request_bytes)",
                self.members
            );
            return invalid(why);
        }
        if self.data.len() > MAX_DATA_BYTES {
            return invalid(format!("data of {} bytes; at most {MAX_DATA_BYTES} are allowed", self.data.len()));
        }
        let ready = path::join(&dir, READY).into();
        let znodes = Znodes { core: Arc::clone(core), path, dir, ready, members: self.members, data: self.data };
        Ok(DoubleBarrier::at(self.client, znodes))
    }
}
