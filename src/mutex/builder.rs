//! The options of a mutex.

use std::sync::Arc;

use super::error::Error;
use super::{BASE, InterProcessMutex};
use crate::client::Client;
use crate::contender::{LeftBehind, Line, REVOKED};
use crate::path;

/// What a node holds travels to whoever reads it; this is plenty and far below the megabyte of a node.
const MAX_DATA_BYTES: usize = 64 * 1024;

/// The options of an [`InterProcessMutex`]; see [`InterProcessMutex::builder`].
#[derive(Debug, Clone)]
#[must_use = "there is no mutex before start()"]
pub struct InterProcessMutexBuilder {
    client: Client,
    path: String,
    data: Vec<u8>,
    also_count: Vec<String>,
}

impl InterProcessMutexBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        InterProcessMutexBuilder { client: client.clone(), path, data: Vec::new(), also_count: Vec::new() }
    }

    /// What the nodes of this mutex object hold, for people to see who stands in line; at most 65 536 bytes. Empty by default.
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Other kinds of nodes that stand in the same line: those whose names end in one of these texts and a number.
    /// `["__lock__"]` counts the nodes of kazoo's `Lock`, whose `extra_lock_patterns` must name `"lock-"` in turn. None by
    /// default.
    pub fn also_count<T: Into<String>>(mut self, bases: impl IntoIterator<Item = T>) -> Self {
        self.also_count = bases.into_iter().map(Into::into).collect();
        self
    }

    /// The mutex. Nothing is sent before the first acquire.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path;
    /// [`Error::InvalidOption`]; [`Error::Closed`] if the client has been closed.
    pub fn start(self) -> Result<InterProcessMutex, Error> {
        path::validate(&self.path).map_err(|error| Error::client(&self.path, error.into()))?;
        let path: Arc<str> = self.path.into();
        let invalid = |why: String| Err(Error::InvalidOption { path: Arc::clone(&path), why });
        if self.data.len() > MAX_DATA_BYTES {
            return invalid(format!("data of {} bytes; at most {MAX_DATA_BYTES} are allowed", self.data.len()));
        }
        if self.data == REVOKED {
            return invalid("the data is the mark of a revoked lock; choose another".into());
        }
        if let Some(base) = self.also_count.iter().find(|base| base.is_empty() || base.contains('/')) {
            return invalid(format!(
                "also_count: {base:?} cannot be the end of a node's name before its number; it must be a text without '/'"
            ));
        }
        let core = self.client.core();
        if *core.closing.borrow() {
            return Err(Error::Closed { path });
        }
        let line = Line {
            dir: core.full_path(&path).into(),
            base: BASE,
            also_count: self.also_count,
            data: self.data,
            watch_own: false,
            left_behind: LeftBehind::default(),
        };
        Ok(InterProcessMutex { client: self.client, path, line: Arc::new(line) })
    }
}
