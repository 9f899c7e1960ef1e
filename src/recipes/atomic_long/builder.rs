//! The options of an atomic number.

use std::sync::Arc;

use super::DistributedAtomicLong;
use super::error::Error;
use crate::client::Client;
use crate::mutex::{self, InterProcessMutex};

/// The default of [`DistributedAtomicLongBuilder::optimistic_tries`].
const OPTIMISTIC_TRIES: u32 = 8;

/// Configures a [`DistributedAtomicLong`]; see [`DistributedAtomicLong::builder`].
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::atomic_long::{DistributedAtomicLong, Error};
///
/// # fn example(client: &Client) -> Result<(), Error> {
/// let hits = DistributedAtomicLong::builder(client, "/my-service/hits")
///     .promoted_to_lock("/my-service/hits-lock")
///     .optimistic_tries(5)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "there is no number before build()"]
pub struct DistributedAtomicLongBuilder {
    client: Client,
    path: String,
    lock_path: Option<String>,
    optimistic_tries: u32,
}

impl DistributedAtomicLongBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        DistributedAtomicLongBuilder {
            client: client.clone(),
            path,
            lock_path: None,
            optimistic_tries: OPTIMISTIC_TRIES,
        }
    }

    /// Lets a call acquire the [`InterProcessMutex`] at this path once its [tries](Self::optimistic_tries) without a
    /// lock are used up. Callers that use the same path then write in turn. Other clients can still write without the
    /// lock, so a call under it checks the version too. Default: no lock; calls retry until they succeed.
    #[doc(alias = "PromotedToLock")]
    pub fn promoted_to_lock(mut self, lock_path: impl Into<String>) -> Self {
        self.lock_path = Some(lock_path.into());
        self
    }

    /// Sets how often another client's write may come first, in one call, before the
    /// [lock](Self::promoted_to_lock) is acquired. With 0, each call acquires it at once. Default 8. Has no effect
    /// without a lock.
    pub fn optimistic_tries(mut self, tries: u32) -> Self {
        self.optimistic_tries = tries;
        self
    }

    /// Returns the number. It sends no request before the first call.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if the path is malformed;
    /// [`Error::Lock`] if the lock's path is malformed; [`Error::InvalidOption`] if the lock is at the path of the
    /// number or below it; [`Error::Closed`] if the client has been closed.
    pub fn build(self) -> Result<DistributedAtomicLong, Error> {
        self.client.open_path(&self.path).map_err(|error| Error::client(&self.path, error))?;
        let path: Arc<str> = self.path.into();
        let lock = match self.lock_path {
            Some(lock_path) => Some(lock_at(&self.client, &path, lock_path)?),
            None => None,
        };
        Ok(DistributedAtomicLong::with(self.client, path, lock.map(|lock| (lock, self.optimistic_tries))))
    }
}

fn lock_at(client: &Client, path: &Arc<str>, lock_path: String) -> Result<InterProcessMutex, Error> {
    // The lock's directories are containers, which a number must not be: the servers delete empty ones.
    if lock_path.strip_prefix(&**path).is_some_and(|below| below.is_empty() || below.starts_with('/')) {
        let why = format!("a lock at {lock_path}; it must not be at or below the path of the number");
        return Err(Error::InvalidOption { path: Arc::clone(path), why });
    }
    let failed = |error: mutex::Error| Error::Lock { path: Arc::clone(path), error };
    InterProcessMutex::new(client, lock_path).map_err(failed)
}
