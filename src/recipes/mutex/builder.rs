//! The builder of a mutex.

use std::sync::Arc;

use super::InterProcessMutex;
use super::{Error, LockKind};
use crate::client::Client;
use crate::contender::lock::{LockLine, check_bases, check_data};
use crate::contender::{Rule, Spec};
use crate::layout::line;

/// Configures an [`InterProcessMutex`]; see [`InterProcessMutex::builder`].
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::mutex::{Error, InterProcessMutex};
///
/// # fn example(client: &Client) -> Result<(), Error> {
/// let mutex = InterProcessMutex::builder(client, "/my-service/lock")
///     .data("worker-7")
///     .also_count(["__lock__"])
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "there is no mutex before build()"]
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

    /// Sets the data of this mutex's nodes, so that operators can see which process waits. At most 65 536 bytes.
    /// Default: empty.
    #[doc(alias = "getLockNodeBytes")]
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Counts other kinds of nodes as participants: those whose names end in one of these texts and a number.
    /// `["__lock__"]` counts the nodes of kazoo's `Lock`, whose `extra_lock_patterns` must contain `"lock-"` in turn.
    /// Default: none.
    #[doc(alias = "extra_lock_patterns")]
    pub fn also_count<T: Into<String>>(mut self, bases: impl IntoIterator<Item = T>) -> Self {
        self.also_count = bases.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the mutex. It sends no request before the first acquire.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if the path is malformed.
    /// [`Error::InvalidOption`] if an option is out of its range. [`Error::Closed`] if the client has been closed.
    pub fn build(self) -> Result<InterProcessMutex, Error> {
        self.client.open_path(&self.path).map_err(|error| Error::client(LockKind::Mutex, &self.path, error))?;
        let path: Arc<str> = self.path.into();
        let checked = check_data(&self.data).and_then(|()| check_bases("also_count", &self.also_count));
        checked.map_err(|why| Error::InvalidOption { lock: LockKind::Mutex, path: Arc::clone(&path), why })?;
        let dir = self.client.core().full_path(&path);
        let spec = Spec::of_lock(dir, line::LOCK, self.also_count, Rule::Alone, self.data);
        Ok(InterProcessMutex { line: LockLine::new(self.client, "mutex", path, spec) })
    }
}
