//! The builder of a read-write lock.

use std::sync::Arc;

use super::InterProcessReadWriteLock;
use super::{Error, LockKind};
use crate::client::Client;
use crate::contender::lock::{LockLine, check_bases, check_data};
use crate::contender::{Rule, Spec};
use crate::layout::line::{READ, WRITE, number_of};

/// Configures an [`InterProcessReadWriteLock`]; see [`InterProcessReadWriteLock::builder`].
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::read_write_lock::{Error, InterProcessReadWriteLock};
///
/// # fn example(client: &Client) -> Result<(), Error> {
/// let lock = InterProcessReadWriteLock::builder(client, "/my-service/index")
///     .data("worker-7")
///     .also_count_readers(["__rlock__"])
///     .also_count_writers(["__lock__"])
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "there is no lock before build()"]
pub struct InterProcessReadWriteLockBuilder {
    client: Client,
    path: String,
    data: Vec<u8>,
    readers: Vec<String>,
    writers: Vec<String>,
}

impl InterProcessReadWriteLockBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        let (client, data, readers, writers) = (client.clone(), Vec::new(), Vec::new(), Vec::new());
        InterProcessReadWriteLockBuilder { client, path, data, readers, writers }
    }

    /// Sets the data of this lock's nodes, so that operators can see which process waits. At most 65 536 bytes.
    /// Default: empty.
    #[doc(alias = "getLockNodeBytes")]
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Counts other kinds of nodes as readers: those whose names end in one of these texts and a number.
    /// `["__rlock__"]` counts the nodes of kazoo's `ReadLock`, whose `extra_lock_patterns` must be `["-__WRIT__"]`
    /// in turn. Default: none.
    #[doc(alias = "extra_lock_patterns")]
    pub fn also_count_readers<T: Into<String>>(mut self, bases: impl IntoIterator<Item = T>) -> Self {
        self.readers = bases.into_iter().map(Into::into).collect();
        self
    }

    /// Counts other kinds of nodes as writers: those whose names end in one of these texts and a number.
    /// `["__lock__"]` counts the nodes of kazoo's `WriteLock`, whose `extra_lock_patterns` must be
    /// `["-__WRIT__", "-__READ__"]` in turn. Then kazoo's plain `Lock` counts too. Default: none.
    pub fn also_count_writers<T: Into<String>>(mut self, bases: impl IntoIterator<Item = T>) -> Self {
        self.writers = bases.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the lock. It sends no request before the first acquire.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if the path is malformed.
    /// [`Error::InvalidOption`] if an option is out of its range. [`Error::Closed`] if the client has been closed.
    pub fn build(self) -> Result<InterProcessReadWriteLock, Error> {
        self.client.open_path(&self.path).map_err(|error| Error::client(LockKind::ReadWriteLock, &self.path, error))?;
        let path: Arc<str> = self.path.as_str().into();
        self.check().map_err(|why| Error::InvalidOption {
            lock: LockKind::ReadWriteLock,
            path: Arc::clone(&path),
            why,
        })?;
        let readers = with(READ, &self.readers);
        let writers = with(WRITE, &self.writers);
        let dir = self.client.core().full_path(&path);
        let also_count = [&self.readers[..], &writers[..]].concat();
        let reads = Spec::of_lock(dir.clone(), READ, also_count, Rule::Reads(readers.clone()), self.data.clone());
        let also_count = [&self.writers[..], &readers[..]].concat();
        let writes = Spec::of_lock(dir, WRITE, also_count, Rule::Writes(readers), self.data);
        let line = |recipe, spec| LockLine::new(self.client.clone(), recipe, Arc::clone(&path), spec);
        Ok(InterProcessReadWriteLock { reads: line("read_lock", reads), writes: line("write_lock", writes) })
    }

    fn check(&self) -> Result<(), String> {
        check_data(&self.data)?;
        check_bases("also_count_readers", &self.readers)?;
        check_bases("also_count_writers", &self.writers)?;
        for reader in with(READ, &self.readers) {
            for writer in with(WRITE, &self.writers) {
                if is_also(&reader, &writer) || is_also(&writer, &reader) {
                    return Err(format!(
                        "a node whose name ends in {reader:?} (readers) or {writer:?} (writers) and a number would be \
                         both; neither text may end in the other, or in the other and a part of the number"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a name that ends in `base` and a number ends in `other` and a number, too.
fn is_also(base: &str, other: &str) -> bool {
    number_of(&format!("{base}0"), &[other]).is_some()
}

/// Returns our own base and the others.
fn with(own: &str, others: &[String]) -> Vec<String> {
    std::iter::once(own.to_owned()).chain(others.iter().cloned()).collect()
}
