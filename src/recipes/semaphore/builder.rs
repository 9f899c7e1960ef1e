//! The builder of a semaphore.

use std::sync::Arc;

use super::InterProcessSemaphore;
use super::permits::Permits;
use super::shared::Shared;
use super::{Error, LockKind};
use crate::client::Client;
use crate::contender::acquire::Acquire;
use crate::contender::lock::check_data;
use crate::contender::measure::announce;
use crate::contender::{Rule, Spec};
use crate::layout::line::LOCK;
use crate::layout::semaphore::{LEASE, LEASES, LINE};
use crate::util::path::join;

/// Configures an [`InterProcessSemaphore`]; see [`InterProcessSemaphore::builder`].
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::semaphore::{Error, InterProcessSemaphore};
///
/// # fn example(client: &Client) -> Result<(), Error> {
/// let licences = InterProcessSemaphore::builder(client, "/my-service/licences")
///     .permits(3)
///     .data("worker-7")
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "there is no semaphore before build()"]
pub struct InterProcessSemaphoreBuilder {
    client: Client,
    path: String,
    data: Vec<u8>,
    permits: Option<From>,
}

/// Where the number of permits comes from, as the user specified it.
#[derive(Debug, Clone)]
enum From {
    Number(u32),
    Path(String),
}

impl InterProcessSemaphoreBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        InterProcessSemaphoreBuilder { client: client.clone(), path, data: Vec::new(), permits: None }
    }

    /// Sets the number of permits, at least 1. All participants must use the same number: one that uses a larger number
    /// lets more in. This or [`permits_from`](Self::permits_from) must be set; if both are, the last call counts.
    #[doc(alias = "maxLeases")]
    pub fn permits(mut self, permits: u32) -> Self {
        self.permits = Some(From::Number(permits));
        self
    }

    /// Reads the number of permits from the node at this path of this client, in the format of a
    /// [`SharedCount`](crate::shared_value::SharedCount): four bytes, the most significant first. No permit is granted
    /// while it is zero or negative. It is read at each look at the leases, and never from a cache.
    ///
    /// An operator may change it at any time. If it is lowered below the number of permits that are taken, their
    /// holders keep them, and no permit is granted until enough of them are released. If it is raised, the first waiter
    /// is woken at once. If the node is missing, or its data does not have four bytes, calls that acquire fail.
    #[doc(alias = "SharedCountReader")]
    pub fn permits_from(mut self, path: impl Into<String>) -> Self {
        self.permits = Some(From::Path(path.into()));
        self
    }

    /// Sets the data of this semaphore's nodes, so that operators can see which process has a permit or waits for one.
    /// At most 65 536 bytes. Default: empty.
    #[doc(alias = "setNodeData")]
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Returns the semaphore. It sends no request before the first acquire.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if a path is malformed.
    /// [`Error::InvalidOption`] if an option is out of its range, if the number of permits is not set, or if its node
    /// would be at or below `locks` or `leases` of this semaphore.
    /// [`Error::Closed`] if the client has been closed.
    pub fn build(self) -> Result<InterProcessSemaphore, Error> {
        let path: Arc<str> = self.path.into();
        let client = |error| Error::client(LockKind::Semaphore, &path, error);
        self.client.open_path(&path).map_err(client)?;
        let invalid = |why: String| Error::InvalidOption { lock: LockKind::Semaphore, path: Arc::clone(&path), why };
        check_data(&self.data).map_err(invalid)?;
        let core = self.client.core();
        let permits = match self.permits {
            Some(From::Number(0)) => return Err(invalid("0 permits; must be at least 1".into())),
            Some(From::Number(permits)) => Permits::Fixed(permits),
            Some(From::Path(from)) => {
                self.client.open_path(&from).map_err(client)?;
                if let Some(dir) = [LINE, LEASES].into_iter().find(|dir| is_in(&from, &join(&path, dir))) {
                    return Err(invalid(format!("{from}, the node of the number, would count as a node in {dir}/")));
                }
                Permits::From(core.full_path(&from).into())
            }
            None => return Err(invalid("the number of permits is not set; call permits() or permits_from()".into())),
        };
        let full = core.full_path(&path);
        let line = Spec::of_lock(join(&full, LINE), LOCK, Vec::new(), Rule::Alone, self.data.clone());
        let leases = Spec::counted(join(&full, LEASES), LEASE, self.data);
        let acquire = Acquire { client: self.client.clone(), recipe: "semaphore", path: Arc::clone(&path) };
        announce(core, acquire.recipe, &path);
        let shared = Shared { acquire, line: line.into(), leases: leases.into(), permits };
        Ok(InterProcessSemaphore { shared: Arc::new(shared) })
    }
}

/// Returns whether a path is at or below a directory.
fn is_in(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}
