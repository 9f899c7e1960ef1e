//! One value that many processes read and write, compatible with Curator's `SharedValue` and `SharedCount`.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::shared_value::{SharedValue, Utf8};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let mode = SharedValue::builder(&client, "/my-service/mode")
//!     .decode(Utf8)
//!     .seed("normal")
//!     .start()
//!     .await?;
//!
//! println!("the mode is {}", mode.get()?); // without a request
//! mode.set("maintenance").await?;
//! let mut changes = mode.changes();
//! while let Some(value) = changes.next().await {
//!     match value {
//!         Ok(value) => println!("the mode is now {value}"),
//!         // Deleted, for example. The stream continues.
//!         Err(error) => println!("{error}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What a reader and a writer can rely on
//!
//! [`get`](SharedValue::get) returns what the ensemble had at one moment in the past, and never something older than
//! before, nor than what the same handle has written. [`synced`](SharedValue::synced) is as new as the call.
//!
//! A write that returns `Ok` was carried out exactly once, except a [`set`](SharedValue::set) after a lost answer:
//! another client may have written its value. [`compare_and_set`](SharedValue::compare_and_set) and
//! [`update`](SharedValue::update) write only over the version that they saw, so they overwrite no other write unseen.
//! With any error but [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown), [`Error::SameValue`] and
//! [`Error::Replaced`], nothing was written. (After a lost answer, Curator's `trySetValue` returns false while the
//! servers have the new value.)
//!
//! After a lost answer, the node may have the new value although another client wrote it. A [`set`](SharedValue::set)
//! then returns `Ok`: the value is set, whichever client set it. A conditional write returns [`Error::SameValue`],
//! because two clients must not both assume that they replaced the same version. If the value names its writer, or has
//! a single writer, this call wrote it. To count, use a
//! [`DistributedAtomicLong`](crate::atomic_long::DistributedAtomicLong), which tells its own writes from those of
//! others.
//!
//! A version counts the writes of one node. If the node is deleted, created again and written equally often before this
//! client notices, the versions are the same. A write over the first node is then carried out on the second, and
//! returns [`Error::Replaced`].
//!
//! # When things fail
//!
//! | event | what happens |
//! |---|---|
//! | connection suspended | `get` continues to return the last value. A write waits, up to the connection timeout, |
//! | | and so does the read before it. `synced` and `wait_for` wait without a limit. |
//! | reconnected, new session | The value is compared with the servers. If it differs, it is reported, once. |
//! | reply to a write lost | After the reconnect, the version shows whether it was carried out. If not, it is retried |
//! | | until the connection timeout has passed. If the node has the new value: `Ok` for a `set`, else |
//! | | [`Error::SameValue`]. If other clients have written since, so that it is unclear: `OutcomeUnknown`. |
//! | session lost, reply to a write lost | The write returns `OutcomeUnknown`. |
//! | value larger than the servers read | The write fails; later writes are not affected. |
//! | another client wrote first | `compare_and_set` returns false; `update` reads the value again and retries. |
//! | node deleted by another client | `get` and writes return [`Error::Missing`]. It is not created again. |
//! | node created again by another client | Everything works as before. |
//! | data that cannot be decoded | `get` and `update` return [`Error::Undecodable`]. `set` replaces it. |
//! | process stopped for longer than the session timeout | As for a new session. |
//! | future of a write dropped | The write may be carried out. |
//!
//! # What it costs
//!
//! One request to create the node with its seed, and what a [cache](crate::cache#what-it-costs) of one node costs: a
//! watch, an event and a read for each change, and the heartbeats. A write is one request. Each time an `update` is
//! refused, it costs one more sync and read, after a delay of 2 ms that doubles up to 250 ms, with jitter.
//!
//! # Znodes
//!
//! | path | mode | data |
//! |---|---|---|
//! | the path | persistent; missing parents are containers | the serializer's bytes; four for a [`SharedCount`] |

mod builder;
mod changes;
mod count;
mod error;
mod versioned;
mod write;

use std::fmt;
use std::sync::Arc;

pub use self::builder::SharedValueBuilder;
pub use self::changes::Changes;
pub use self::count::{CountBytes, SharedCount};
pub use self::error::Error;
pub use self::versioned::Versioned;
use self::write::Write;
use crate::cache::{Cache, Node};
use crate::client::{self, Client, ErrorKind};
use crate::util::backoff::{AFTER_CONFLICT, Backoff};
use crate::util::clock::Instant;
use crate::util::mutex::Mutex;
#[cfg(feature = "json")]
pub use crate::util::serializer::Json;
pub use crate::util::serializer::{BoxError, RawBytes, Serializer, Utf8};
use crate::util::znode::Stat;

/// The version that a server takes to mean any version.
const ANY_VERSION: i32 = -1;

/// A value that many processes read and write; see the [module](self). Cheap to clone. It is kept up to date until the
/// last clone is dropped.
#[doc(alias = "SharedValueReader")]
pub struct SharedValue<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    client: Client,
    path: Arc<str>,
    copy: Cache<T>,
    serializer: Arc<dyn Serializer<Item = T>>,
    /// The last own write, until the copy is known to contain it.
    written: Mutex<Option<Written<T>>>,
}

struct Written<T> {
    node: Node<T>,
    /// The write was carried out before this time.
    at: Instant,
}

impl SharedValue<Vec<u8>> {
    /// Returns a builder for the value at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> SharedValueBuilder {
        SharedValueBuilder::new(client, path.into())
    }
}

impl<T: Send + Sync + 'static> SharedValue<T> {
    fn new(client: Client, path: Arc<str>, copy: Cache<T>, serializer: Arc<dyn Serializer<Item = T>>) -> Self {
        SharedValue { inner: Arc::new(Inner { client, path, copy, serializer, written: Mutex::new(None) }) }
    }

    /// Returns the latest value that is known, without a request.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Undecodable`]; [`Error::Client`] with
    /// [`ErrorKind::NoAuth`] if the client may not read the node.
    #[doc(alias = "getValue")]
    #[doc(alias = "getVersionedValue")]
    #[doc(alias = "getCount")]
    pub fn get(&self) -> Result<Versioned<T>, Error> {
        Versioned::of(&self.inner.path, self.node().as_ref())
    }

    /// Waits for a value that is at least as new as the ensemble was when this was called, and returns it. Waits as
    /// long as it takes, even across losses of the connection and of the session.
    ///
    /// # Errors
    /// As [`get`](Self::get); [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn synced(&self) -> Result<Versioned<T>, Error> {
        let Inner { client, path, copy, written, .. } = &*self.inner;
        let asked = client.core().clock.now();
        copy.synced().await.map_err(|error| Error::cache(path, error))?;
        // The copy contains our last write, if that was answered before, or a later one.
        written.lock().take_if(|written| written.at <= asked);
        self.get()
    }

    /// Returns the changes from now on, including those by this handle. Of several changes in quick succession, only
    /// the last may be reported. A value that does not differ is not reported. An error in the stream is a state of the
    /// node, and does not end the stream.
    ///
    /// Start from [`Changes::start`], the value that the first change follows: changes between a [`get`](Self::get) and
    /// this call are not reported.
    #[doc(alias = "SharedValueListener")]
    #[doc(alias = "SharedCountListener")]
    pub fn changes(&self) -> Changes<T> {
        Changes::new(&self.inner.path, self.inner.copy.changes())
    }

    /// Waits until there is a value for which `condition` holds, and returns it. Values that follow each other quickly
    /// may be skipped.
    ///
    /// # Errors
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn wait_for(&self, mut condition: impl FnMut(&T) -> bool) -> Result<Versioned<T>, Error> {
        let mut found = None;
        let waited = self.inner.copy.wait_for(|_| {
            found = self.get().ok().filter(|value| condition(value));
            found.is_some()
        });
        waited.await.map_err(|error| Error::cache(&self.inner.path, error))?;
        // The wait has ended with a value.
        found.ok_or_else(|| Error::Missing { path: Arc::clone(&self.inner.path) })
    }

    /// Sets the value unconditionally, and returns it with its new version. Afterwards [`get`](Self::get) returns this
    /// value or a later one.
    ///
    /// # Errors
    /// * [`Error::Missing`] if there is no node.
    /// * [`Error::Unserializable`]; [`Error::Client`] if it is larger than a server accepts.
    /// * [`Error::Client`] with [`ErrorKind::OutcomeUnknown`]: it may have been set, once. With any other kind it was
    ///   not, for example without permission, or without a connection for as long as the client's connection timeout.
    /// * [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If the future was polled, the value may be set even if the future is dropped.
    #[doc(alias = "setValue")]
    #[doc(alias = "setCount")]
    pub fn set(&self, value: impl Into<T>) -> impl Future<Output = Result<Versioned<T>, Error>> + Send {
        let value = value.into();
        async move {
            let before = self.node().map(|node| *node.stat());
            let written = self.write("set", value, before, false).await?;
            // Only a conditional write is refused for its version.
            written.ok_or_else(|| Error::Missing { path: Arc::clone(&self.inner.path) })
        }
    }

    /// Sets the value if it is still the one that was read as `expected`, and returns whether it did.
    ///
    /// # Errors
    /// As [`set`](Self::set); [`Error::VersionOverflow`]; [`Error::Replaced`], if the value was written over another
    /// node; [`Error::SameValue`], if this call or another client wrote the value.
    ///
    /// # Cancel safety
    /// As [`set`](Self::set).
    #[doc(alias = "trySetValue")]
    #[doc(alias = "trySetCount")]
    pub fn compare_and_set(
        &self,
        expected: &Versioned<T>,
        value: impl Into<T>,
    ) -> impl Future<Output = Result<bool, Error>> + Send {
        let (value, stat) = (value.into(), *expected.stat());
        async move {
            let known = match self.node() {
                Some(node) => *node.stat(),
                // The next node at the path may have the same version.
                None => *self.synced_in_time("compare and set").await?.stat(),
            };
            // A later value is known, so the expected one is outdated.
            if known.mzxid > stat.mzxid {
                return Ok(false);
            }
            Ok(self.write_over(stat, value).await?.is_some())
        }
    }

    /// Replaces the value with what `change` returns for it, and returns the new one; `None` if `change` returns
    /// `None`. No other write is overwritten unseen: if another client's write comes first, the value is read again and
    /// `change` is called again, until it succeeds. Before this returns `None`, `change` has seen a value that the
    /// ensemble had during the call.
    ///
    /// # Errors
    /// As [`compare_and_set`](Self::compare_and_set), and [`Error::Undecodable`].
    ///
    /// # Cancel safety
    /// As [`set`](Self::set).
    pub async fn update<C>(&self, mut change: C) -> Result<Option<Versioned<T>>, Error>
    where
        C: FnMut(&T) -> Option<T> + Send,
    {
        // A loop over calls that fail at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let core = self.inner.client.core();
        let mut delays = Backoff::new(AFTER_CONFLICT);
        let mut known = self.get().ok();
        loop {
            let began = core.clock.now();
            // Only a current value may decide that nothing is written.
            let is_synced = known.is_none();
            let before = match known.take() {
                Some(before) => before,
                None => self.synced_in_time("update").await?,
            };
            match change(&before) {
                None if is_synced => return Ok(None),
                None => continue,
                Some(value) => {
                    if let Some(written) = self.write_over(*before.stat(), value).await? {
                        return Ok(Some(written));
                    }
                }
            }
            tokio::time::sleep(core.next_delay(&mut delays, began)).await;
        }
    }

    /// Returns the error of the latest attempt to read the node, if it failed, so that [`get`](Self::get) may be
    /// outdated; `None` once an attempt has succeeded. Only errors of the copy count, for example that the root which
    /// the connect string names was deleted. `get` returns the state of the node, and
    /// [`Client::connection_state`] the losses of the connection.
    pub fn last_error(&self) -> Option<Error> {
        self.inner.copy.last_error().map(|error| Error::cache(&self.inner.path, error))
    }

    /// Returns the path of the value.
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// As [`synced`](Self::synced), for at most the connection timeout.
    async fn synced_in_time(&self, doing: &str) -> Result<Versioned<T>, Error> {
        let Inner { client, path, .. } = &*self.inner;
        let within = client.core().config.connection_timeout;
        let Ok(synced) = tokio::time::timeout(within, self.synced()).await else {
            let why = format!("the value was not read within {within:?}, and nothing was written; try again later");
            let error = client::Error::at(ErrorKind::ConnectionLoss, doing, path, why);
            return Err(self.last_error().unwrap_or_else(|| Error::client(path, error)));
        };
        synced
    }

    /// Returns the node as the copy has it, or as this handle has written it since.
    fn node(&self) -> Option<Node<T>> {
        let Inner { client, copy, written, .. } = &*self.inner;
        let mut written = written.lock();
        // Read under the lock: a snapshot taken earlier may be older than the write that another call has just removed.
        let snapshot = copy.snapshot();
        let copied = snapshot.root();
        if let Some(Written { node, at }) = &*written {
            let latest = copied.map_or(snapshot.zxid(), |copied| copied.stat().mzxid);
            let is_copied = latest >= node.stat().mzxid;
            let elapsed = client.core().clock.now().since(*at);
            // If the copy has no node, only the time shows whether it was deleted since or did not exist yet.
            if !is_copied && elapsed <= snapshot.age() {
                return Some(node.clone());
            }
            *written = None;
        }
        copied.cloned()
    }

    /// Writes a value if the node has this version. `None` if it has another one.
    async fn write_over(&self, before: Stat, value: T) -> Result<Option<Versioned<T>>, Error> {
        if before.version == ANY_VERSION {
            return Err(Error::VersionOverflow { path: Arc::clone(&self.inner.path) });
        }
        self.write("compare and set", value, Some(before), true).await
    }

    async fn write(
        &self,
        doing: &'static str,
        value: T,
        before: Option<Stat>,
        is_conditional: bool,
    ) -> Result<Option<Versioned<T>>, Error> {
        let Inner { client, path, serializer, written, .. } = &*self.inner;
        let core = client.core();
        let bytes = serializer.serialize(&value);
        let bytes = bytes.map_err(|error| Error::Unserializable { path: Arc::clone(path), why: error.to_string() })?;
        core.check_data(doing, path, &bytes).map_err(|error| Error::client(path, error))?;
        let write = Write { core, path, doing, bytes: &bytes, before, is_conditional };
        let Some(stat) = write.run().await? else { return Ok(None) };
        let value = Versioned::written(path, stat, value);
        let mut written = written.lock();
        if written.as_ref().is_none_or(|last| last.node.stat().mzxid < stat.mzxid) {
            *written = Some(Written { node: value.node().clone(), at: core.clock.now() });
        }
        Ok(Some(value))
    }
}

impl<T> Clone for SharedValue<T> {
    fn clone(&self) -> Self {
        SharedValue { inner: Arc::clone(&self.inner) }
    }
}

impl<T> fmt::Debug for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValue").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
