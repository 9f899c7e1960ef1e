//! The options of a cache.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::Cache;
use super::error::Error;
use super::keeper::{Keeper, Plan};
use super::scope::{Filter, Scope};
use super::shared::{Progress, Shared};
use super::snapshot::Snapshot;
use crate::client::Client;
use crate::util::panic::caught;
use crate::util::serializer::{RawBytes, Serializer};

/// How many batches of changes a subscriber may be behind by default.
const CAPACITY: usize = 1024;

/// Configures a [`Cache`]; see [`Cache::node`], [`Cache::children`] and [`Cache::tree`].
#[must_use = "there is no cache before start()"]
pub struct CacheBuilder<S = RawBytes> {
    client: Client,
    path: String,
    with_root: bool,
    depth: usize,
    filter: Option<Filter>,
    with_data: bool,
    capacity: usize,
    serializer: S,
}

impl CacheBuilder {
    pub(super) fn new(client: &Client, path: String, with_root: bool, depth: usize) -> Self {
        CacheBuilder {
            client: client.clone(),
            path,
            with_root,
            depth,
            filter: None,
            with_data: true,
            capacity: CAPACITY,
            serializer: RawBytes,
        }
    }
}

impl<S: Serializer> CacheBuilder<S> {
    /// Sets how the data of nodes is decoded. Default [`RawBytes`], the bytes as they are. A node whose data cannot be
    /// decoded keeps its bytes and the error ([`Content::Undecodable`](super::Content::Undecodable)).
    pub fn decode<D: Serializer>(self, serializer: D) -> CacheBuilder<D> {
        let CacheBuilder { client, path, with_root, depth, filter, with_data, capacity, .. } = self;
        CacheBuilder { client, path, with_root, depth, filter, with_data, capacity, serializer }
    }

    /// Keeps this many levels below the root: by default none for a node, one for children, all for a tree.
    #[doc(alias = "setMaxDepth")]
    pub fn depth(mut self, levels: usize) -> Self {
        self.depth = levels;
        self
    }

    /// Keeps only nodes for whose path `keep` returns true. Nodes below one that is left out are not read either.
    /// The root is always kept. `keep` must return the same for the same path each time; if it panics, the node is left
    /// out.
    #[doc(alias = "TreeCacheSelector")]
    pub fn filter(mut self, keep: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(move |path: &str| caught(|| keep(path)).unwrap_or(false)));
        self
    }

    /// Reads no data, only the stat of each node. [`Node::content`](super::Node::content) is
    /// [`NotRead`](super::Content::NotRead).
    #[doc(alias = "setCacheData")]
    pub fn without_data(mut self) -> Self {
        self.with_data = false;
        self
    }

    /// Sets how many snapshots a subscriber of [`Cache::changes`] may be behind before it receives
    /// [`Lagged`](super::Change::Lagged): 1 to 65 536, rounded up to a power of two. Default 1024.
    ///
    /// It also lags when more than 64 MiB of changes wait for it, counting the nodes before and after each change, with
    /// their data as it was read.
    pub fn capacity(mut self, snapshots: usize) -> Self {
        self.capacity = snapshots;
        self
    }

    /// Starts the cache, and waits for its first snapshot: as long as it takes, even across losses of the connection
    /// and of the session, but only until the first error that is not transient.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path; and
    /// [`Error::Client`] if the root that the connect string names does not exist, or a watch or a sync fails for a
    /// reason that is not transient. A node that cannot be read is not an error but a state of the node.
    /// [`Error::InvalidOption`]; [`Error::Closed`] if the client has been closed.
    ///
    /// # Cancel safety
    /// Cancel safe: the cache that was being started ends.
    pub async fn start(self) -> Result<Cache<S::Item>, Error> {
        let cache = self.begin()?;
        let mut progress = cache.handle.shared.progress();
        loop {
            match &*progress.borrow_and_update() {
                Progress::Published => break,
                Progress::Ended(error) => return Err(error.clone()),
                Progress::Failed(error) => return Err(error.clone()),
                Progress::Reading => {}
            }
            if progress.changed().await.is_err() {
                return Err(cache.closed());
            }
        }
        Ok(cache)
    }

    fn begin(self) -> Result<Cache<S::Item>, Error> {
        let path: Arc<str> = self.path.into();
        let client_error = |error| Error::client(&path, error);
        crate::util::path::validate_or_root(&path).map_err(|error| client_error(error.into()))?;
        if self.client.is_closed() {
            return Err(Error::Closed { path });
        }
        if self.capacity == 0 || self.capacity > 65_536 {
            let why = format!("a capacity of {} snapshots; 1 to 65536 are allowed", self.capacity);
            return Err(Error::InvalidOption { path, why });
        }
        if !self.with_root && self.depth == 0 {
            let why = "a depth of 0 levels; children are at least 1 level below the root".to_owned();
            return Err(Error::InvalidOption { path, why });
        }
        let scope = Arc::new(Scope {
            root: Arc::clone(&path),
            with_root: self.with_root,
            depth: self.depth,
            filter: self.filter,
        });
        let (asking, asked) = mpsc::unbounded_channel();
        let (alive, dropped) = oneshot::channel();
        let core = self.client.core();
        let shared = Shared::new(self.capacity, Snapshot::empty(&scope, core.clock));
        let serializer = self.serializer;
        let plan = Plan {
            scope,
            with_data: self.with_data,
            decode: Arc::new(move |bytes: &[u8]| serializer.deserialize(bytes)),
        };
        let keeper = Keeper::new(core, plan, &shared, asked);
        core.runtime.spawn(keeper.run(dropped));
        Ok(Cache::new(self.client, path, shared, asking, alive))
    }
}

impl<S> fmt::Debug for CacheBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBuilder").field("path", &self.path).field("depth", &self.depth).finish_non_exhaustive()
    }
}
