//! An in-memory copy of a node, its children or a tree, kept up to date: Curator's `CuratorCache`, and before that
//! `NodeCache`, `PathChildrenCache` and `TreeCache`.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::cache::{Cache, Change};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let config = Cache::tree(&client, "/my-service/config").start().await?;
//!
//! let mut changes = config.changes();
//! // The snapshot before the first change. Later, `config.snapshot()` takes no request and no lock.
//! if let Some(node) = changes.start().get("/my-service/config/limit") {
//!     println!("limit: {:?}", node.value());
//! }
//! while let Some(change) = changes.next().await {
//!     match change {
//!         Change::Added(node) => println!("{} is new", node.path()),
//!         Change::Updated { new, .. } => println!("{} changed", new.path()),
//!         Change::Removed { old } => println!("{} is gone", old.path()),
//!         other => println!("{other:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! If the root does not exist (yet), the cache is empty. It fills when the root is created.
//!
//! # What a reader may conclude
//!
//! A [`Snapshot`] shows what the ensemble had in the past; its page says exactly what a reader may conclude. Use it for
//! configuration and discovery, where a value may be a few seconds old as long as it is then corrected. It is not a
//! lock. To be sure to read your own or another process's write, use [`Cache::synced`]. To act on a value that must not
//! have changed since, write with its version ([`Client::set`](crate::Client::set), or a
//! [transaction](crate::Client::transaction) that checks it).
//!
//! # When things fail
//!
//! | event | what happens |
//! |---|---|
//! | connection `Suspended` | The snapshot stays, and its [`age`](Snapshot::age) grows. |
//! | `Reconnected`, new session | Everything is compared with the servers. What differs is read and reported, once. |
//! | | Then comes [`Synced`](Change::Synced). |
//! | the new server lags | It has to catch up first, so no node goes back to an older version. |
//! | node deleted by another client | It is [removed](Change::Removed). It comes back if it is created again. |
//! | reply lost | The comparison after the reconnect reads the node again. |
//! | process stopped for longer than the session timeout | [`is_fresh`](Snapshot::is_fresh) is false at once. |
//! | | Then as for a new session. |
//! | no permission to read a node | The node is there, as [`Denied`](Content::Denied). |
//! | | The read is retried within ten minutes, after each event of the node, and in each comparison. |
//! | another error at one node | The node is there, as [`Unreadable`](Content::Unreadable), with the error. |
//! | | The read is retried as above, first within a second. All other nodes stay fresh. |
//! | children that cannot be listed | Children may be missing: see [`Snapshot::unlistable`]. |
//! | | The list is retried as above. |
//! | data that cannot be decoded | The node is there, as [`Undecodable`](Content::Undecodable), with its bytes. |
//! | the root that the connect string names is missing | [`start`](CacheBuilder::start) returns an error. |
//! | | If it is deleted later, the cache is empty and not fresh, and [`synced`](Cache::synced) fails, |
//! | | until it is created again. See [`Failed`](Change::Failed) and [`Cache::last_error`]. |
//! | a subscriber is too slow | It receives [`Lagged`](Change::Lagged), with a snapshot to continue from. |
//!
//! # What it costs
//!
//! Reading a tree takes one request per node, one per directory that has children, a sync and a watch. After that, each
//! change costs one event and one read; one read covers up to 16 changed nodes of at most a kilobyte each, or a single
//! larger or new node. A deletion costs only the event. After a reconnect, one small request per node shows what
//! differs. At most 512 answers are outstanding at a time. While a cache exists, the session sends six heartbeats per
//! session timeout, which confirm the snapshot. A node takes less than 200 bytes besides its path and data.
//!
//! Servers before 3.6 read only one node per request, and have no persistent watches. With them, each node and each
//! directory has its own watch, which a read arms again after each event, and a deletion costs a request too.

mod builder;
mod change;
mod chroot;
mod error;
mod keeper;
mod measure;
mod node;
mod nodes;
mod reads;
mod scope;
mod shared;
mod snapshot;
mod source;
mod subscribers;
mod tracker;
mod waiters;

use std::fmt;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

pub use self::builder::CacheBuilder;
pub use self::change::{Change, Changes};
pub use self::error::Error;
pub use self::node::{Content, Node, Undecodable};
use self::shared::{Progress, Shared};
pub use self::snapshot::Snapshot;
use self::waiters::Waiter;
use crate::client::Client;
#[cfg(feature = "json")]
pub use crate::util::serializer::Json;
pub use crate::util::serializer::{BoxError, RawBytes, Serializer, Utf8};

/// A copy in memory; see the [module](self). Cheap to clone. It is kept until the last clone is dropped.
///
/// ```no_run
/// use serde::{Deserialize, Serialize};
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::cache::{Cache, Error, Json};
///
/// #[derive(Debug, Serialize, Deserialize)]
/// struct Backend {
///     address: String,
///     weight: u32,
/// }
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let backends = Cache::children(&client, "/my-service/backends")
///     .decode(Json::<Backend>::new())
///     .start()
///     .await?;
/// // Waits until there are three of them.
/// let three = backends.wait_for(|now| now.len() >= 3).await?;
/// for node in three.iter() {
///     match node.value() {
///         Some(backend) => println!("{}: {}", node.name(), backend.address),
///         None => println!("{}: {:?}", node.name(), node.content()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "CuratorCache")]
#[doc(alias = "CuratorCacheBridge")]
pub struct Cache<T> {
    handle: Arc<Handle<T>>,
}

struct Handle<T> {
    /// Keeps the client open.
    _client: Client,
    path: Arc<str>,
    shared: Arc<Shared<T>>,
    asking: mpsc::UnboundedSender<Waiter<T>>,
    /// The task ends when it is dropped.
    _alive: oneshot::Sender<()>,
}

impl Cache<Vec<u8>> {
    /// Returns a builder for a cache of the node at `path`.
    #[doc(alias = "NodeCache")]
    pub fn node(client: &Client, path: impl Into<String>) -> CacheBuilder {
        CacheBuilder::new(client, path.into(), true, 0)
    }

    /// Returns a builder for a cache of the nodes directly below `path`, without the node at `path` itself.
    #[doc(alias = "PathChildrenCache")]
    pub fn children(client: &Client, path: impl Into<String>) -> CacheBuilder {
        CacheBuilder::new(client, path.into(), false, 1)
    }

    /// Returns a builder for a cache of the node at `path` and everything below it. `/` is allowed.
    #[doc(alias = "TreeCache")]
    pub fn tree(client: &Client, path: impl Into<String>) -> CacheBuilder {
        CacheBuilder::new(client, path.into(), true, usize::MAX)
    }
}

impl<T: Send + Sync + 'static> Cache<T> {
    fn new(
        client: Client,
        path: Arc<str>,
        shared: Arc<Shared<T>>,
        asking: mpsc::UnboundedSender<Waiter<T>>,
        alive: oneshot::Sender<()>,
    ) -> Self {
        Cache { handle: Arc::new(Handle { _client: client, path, shared, asking, _alive: alive }) }
    }

    /// Returns the path of the root.
    pub fn path(&self) -> &str {
        &self.handle.path
    }

    /// Returns the latest snapshot, without a request and without a lock.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.handle.shared.latest()
    }

    /// Waits for a snapshot that is at least as new as the ensemble was when this was called, and returns it: every
    /// write that was answered before, to any client, is in it. Waits as long as it takes, even across losses of the
    /// connection and of the session. The guarantee rests on a sync, which a server answers only if it is in touch with
    /// the leader; on a [read-only server](crate::ConnectionState::ReadOnly) this waits for another one. It does not
    /// cover nodes that this client cannot read.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Client`] if the root that the connect string names does not exist.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn synced(&self) -> Result<Snapshot<T>, Error> {
        let (waiter, synced) = oneshot::channel();
        self.handle.asking.send(waiter).map_err(|_| self.closed())?;
        synced.await.map_err(|_| self.closed())?
    }

    /// Returns the changes from now on: those that follow the snapshot [`Changes::start`].
    ///
    /// Start from that snapshot. One that was taken before this call may miss changes in between. Applied to it one by
    /// one, the changes produce every later snapshot. A node that does not differ is not reported.
    #[doc(alias = "listenable")]
    #[doc(alias = "CuratorCacheListener")]
    pub fn changes(&self) -> Changes<T> {
        self.handle.shared.changes()
    }

    /// Waits until `condition` holds for the latest snapshot, and returns that snapshot. Returns at once if it holds
    /// now. Snapshots that follow each other quickly may be skipped.
    ///
    /// # Errors
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn wait_for(&self, mut condition: impl FnMut(&Snapshot<T>) -> bool) -> Result<Snapshot<T>, Error> {
        let mut progress = self.handle.shared.progress();
        loop {
            let ended = match &*progress.borrow_and_update() {
                Progress::Ended(error) => Some(error.clone()),
                _ => None,
            };
            let snapshot = self.snapshot();
            if condition(&snapshot) {
                return Ok(snapshot);
            }
            if let Some(error) = ended {
                return Err(error);
            }
            progress.changed().await.map_err(|_| self.closed())?;
        }
    }

    /// Returns the error of the latest attempt to read, if it failed; `None` once an attempt has succeeded. It is an
    /// error if the root that the connect string names does not exist. A single node that cannot be read is not an
    /// error but a state: see [`Content::Denied`], [`Content::Unreadable`] and [`Snapshot::unlistable`]. Losses of the
    /// connection do not count: see [`Client::connection_state`](crate::Client::connection_state).
    pub fn last_error(&self) -> Option<Error> {
        self.handle.shared.last_error()
    }

    fn closed(&self) -> Error {
        Error::Closed { path: Arc::clone(&self.handle.path) }
    }
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Cache { handle: Arc::clone(&self.handle) }
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("path", &self.handle.path).finish_non_exhaustive()
    }
}
