//! A 64-bit number that many processes change, compatible with Curator's `DistributedAtomicLong`.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::atomic_long::DistributedAtomicLong;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let orders = DistributedAtomicLong::new(&client, "/my-service/orders")?;
//! let added = orders.increment().await?;
//! println!("this is order {}, after {}", added.after, added.before);
//! # Ok(())
//! # }
//! ```
//!
//! # What a caller can rely on
//!
//! A call that returns `Ok` was carried out exactly once, even if an answer was lost. With any error but
//! [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) it was not carried out. With that one it may have been, once:
//! the session ended before the outcome could be read, or another client deleted or wrote the node of the handle.
//! (Curator's `increment()` counts twice after a lost answer, and reports success.)
//!
//! The ensemble orders all changes: each is applied to the current number, never to an older one.
//!
//! # When things fail
//!
//! | event | what happens |
//! |---|---|
//! | connection suspended, nothing sent yet | A call waits for at most the connection timeout. |
//! | connection suspended, write sent | The call waits until it knows the outcome, or the session is over. |
//! | reply lost | After the reconnect, the handle's node shows whether it was carried out. If not, it is repeated. |
//! | session lost, no unknown outcome | The handle creates another node in the next session, and the call continues. |
//! | session lost, reply lost | The call returns `OutcomeUnknown`. |
//! | another client wrote first | The call retries, after a growing delay, or under the lock. |
//! | the number's node deleted by another client | It counts as 0. The next write creates it again. |
//! | the handle's node deleted by another client | The handle creates another one. If a reply was lost: |
//! | | `OutcomeUnknown`. |
//! | one to seven bytes in the node | Calls return [`Error::Corrupted`]. `set` repairs it. |
//! | process stopped for longer than the session timeout | As if the session was lost. |
//! | future dropped | The change may be carried out, once. The next call first finds out whether it was. |
//!
//! # Under contention
//!
//! A write names the version that it replaces. If another client's write comes first, the ensemble refuses it, and the
//! call reads the number again and retries, after a delay of 2 ms that doubles up to 250 ms, with jitter. Each refusal
//! means that another write succeeded. With [`promoted_to_lock`](DistributedAtomicLongBuilder::promoted_to_lock), a
//! call that was refused several times acquires a lock, and callers take turns. The calls of one handle and its clones
//! always take turns, in the order in which they were first polled.
//!
//! # What it costs
//!
//! | call | requests |
//! |---|---|
//! | the first write in a session | one to create the handle's node, one to read the number, one transaction; |
//! | | more if the number or its parents are missing |
//! | a write when no other client wrote since | one transaction |
//! | each time that another client's write came first | one read and one transaction more |
//! | [`get`](DistributedAtomicLong::get) | a sync and a read, sent together |
//! | a lost reply | a sync and a read after the reconnect; if it was not carried out, one transaction more |
//!
//! A handle that only reads has no node. There are no watches and no heartbeats.
//!
//! # Znodes
//!
//! | path | mode | data |
//! |---|---|---|
//! | the path | persistent; missing parents are containers | the number: eight bytes, big-endian, two's complement |
//! | `<path>/<uuid>` | ephemeral, one for each handle that has written in this session | two numbers as text |
//!
//! An empty node counts as missing: as 0, and as not [initialized](DistributedAtomicLong::initialize). The first write
//! creates it empty, with the handle's node below it. Bytes after the eighth are ignored. To delete the number, delete
//! what is below it too (`deleteall` in ZooKeeper's shell). The handle's node is deleted in the background when
//! the last clone is dropped.
//!
//! A client that writes needs the permissions READ, WRITE, CREATE and DELETE at the number's node; one that only reads
//! needs READ.

mod builder;
mod error;
mod value;
mod writer;

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};

pub use self::builder::DistributedAtomicLongBuilder;
pub use self::error::Error;
use self::value::{Change, decode};
use self::writer::{Changed, Writer};
use crate::client::Client;
use crate::client::session::Session;
use crate::engine;
use crate::mutex::InterProcessMutex;
use crate::util::backoff::{AFTER_CONFLICT, Backoff};

/// A number before and after an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Added {
    /// The number before the addition. No other change came between.
    #[doc(alias = "preValue")]
    pub before: i64,
    /// The sum.
    #[doc(alias = "postValue")]
    pub after: i64,
}

/// A number that many processes change; see the [module](self). Cheap to clone; all clones are one handle with one
/// node.
#[doc(alias = "DistributedAtomicNumber")]
#[doc(alias = "DistributedAtomicValue")]
#[derive(Clone)]
pub struct DistributedAtomicLong {
    inner: Arc<Inner>,
}

struct Inner {
    path: Arc<str>,
    /// One write at a time, in the order of the calls.
    writer: Mutex<Writer>,
    /// The lock, and after how many refusals it is used.
    lock: Option<(InterProcessMutex, u32)>,
    // The last field: the node of the writer is deleted before the client may close.
    client: Client,
}

impl DistributedAtomicLong {
    /// Returns the number at `path`, with default options. Sends no request.
    ///
    /// # Errors
    /// As [`DistributedAtomicLongBuilder::build`].
    pub fn new(client: &Client, path: impl Into<String>) -> Result<Self, Error> {
        DistributedAtomicLong::builder(client, path).build()
    }

    /// Returns a builder for the number at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> DistributedAtomicLongBuilder {
        DistributedAtomicLongBuilder::new(client, path.into())
    }

    fn with(client: Client, path: Arc<str>, lock: Option<(InterProcessMutex, u32)>) -> Self {
        let writer = Mutex::new(Writer::new(client.core(), &path));
        DistributedAtomicLong { inner: Arc::new(Inner { path, writer, lock, client }) }
    }

    /// Returns the number as the ensemble has it now: every change that was answered before the call is in it. A
    /// missing or empty node is 0.
    ///
    /// # Errors
    /// [`Error::Corrupted`]; [`Error::Client`] if the read failed, for example without permission. A loss of the
    /// connection is retried as the client's [`RetryPolicy`](crate::RetryPolicy) allows. [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn get(&self) -> Result<i64, Error> {
        self.read().await.map(|number| number.unwrap_or(0))
    }

    /// Adds `delta`, which may be negative, and returns the number before and after. Waits until it is done, however
    /// many other clients write. To limit the wait, use `tokio::time::timeout`: if that elapses, the change may still
    /// be carried out, once.
    ///
    /// # Errors
    /// * [`Error::Overflow`] if the sum does not fit into 64 bits. (Curator's wraps around.)
    /// * [`Error::Corrupted`] if the node has no valid number; [`Error::VersionOverflow`]; [`Error::Lock`].
    /// * [`Error::Client`] with [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown): it was added once or
    ///   not at all. With any other kind nothing was added, for example without permission, or without a connection
    ///   for as long as the client's connection timeout.
    /// * [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If the future was polled, `delta` may be added, once, even if the future is dropped.
    pub async fn add(&self, delta: i64) -> Result<Added, Error> {
        let Changed { before, written } = self.change(Change::Add(delta)).await?;
        let before = before.unwrap_or(0);
        Ok(Added { before, after: written.unwrap_or(before) })
    }

    /// Adds 1.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn increment(&self) -> Result<Added, Error> {
        self.add(1).await
    }

    /// Subtracts 1.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn decrement(&self) -> Result<Added, Error> {
        self.add(-1).await
    }

    /// Sets the number to `new` if it is `expected`, and returns whether it did. A missing or empty node equals no
    /// number, not even 0: it has to be [initialized](Self::initialize) or [set](Self::set) first, as in Curator.
    ///
    /// # Errors
    /// As [`add`](Self::add), without [`Error::Overflow`].
    ///
    /// # Cancel safety
    /// If the future was polled, the number may be set even if the future is dropped.
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<bool, Error> {
        let writer = self.inner.writer.lock().await;
        // Without this, a call that has nothing to write would create the node.
        if !writer.is_registered() && self.read().await? != Some(expected) {
            return Ok(false);
        }
        let changed = self.change_in_turn(writer, Change::Swap { expected, new }).await?;
        Ok(changed.written.is_some())
    }

    /// Sets the number if the node is missing or empty, and returns whether it did.
    ///
    /// # Errors
    /// As [`compare_and_set`](Self::compare_and_set).
    ///
    /// # Cancel safety
    /// As [`compare_and_set`](Self::compare_and_set).
    pub async fn initialize(&self, number: i64) -> Result<bool, Error> {
        self.change(Change::Initialize(number)).await.map(|changed| changed.written.is_some())
    }

    /// Sets the number unconditionally.
    ///
    /// # Errors
    /// [`Error::Client`] as for [`add`](Self::add); [`Error::Closed`].
    ///
    /// # Cancel safety
    /// As [`compare_and_set`](Self::compare_and_set).
    #[doc(alias = "forceSet")]
    pub async fn set(&self, number: i64) -> Result<(), Error> {
        self.change(Change::Set(number)).await.map(drop)
    }

    /// Returns the path of the number.
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// Reads the number. `None` if the node is missing or empty.
    async fn read(&self) -> Result<Option<i64>, Error> {
        let Inner { client, path, .. } = &*self.inner;
        let read = |session: &Arc<Session>, full: &str| {
            let (session, full) = (Arc::clone(session), full.to_owned());
            async move {
                match session.get_data_synced(&full).await {
                    Err(engine::Error::NoNode) => Ok(Vec::new()),
                    read => read.map(|(data, _)| data),
                }
            }
        };
        let data = client.core().read("get", path, read).await.map_err(|error| Error::client(path, error))?;
        decode(path, &data)
    }

    /// Makes a change, when it is this call's turn.
    async fn change(&self, change: Change) -> Result<Changed, Error> {
        let writer = self.inner.writer.lock().await;
        self.change_in_turn(writer, change).await
    }

    async fn change_in_turn(&self, mut writer: MutexGuard<'_, Writer>, change: Change) -> Result<Changed, Error> {
        // A loop over calls that fail at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let Inner { path, lock, client, .. } = &*self.inner;
        let core = client.core();
        let (mut delays, mut refused) = (Backoff::new(AFTER_CONFLICT), 0);
        let mut held = None;
        loop {
            if let Some((lock, tries)) = lock
                && held.is_none()
                && refused >= *tries
            {
                tracing::debug!(event = "promoted_to_lock", path = &**path, refused, "the number is contended");
                let acquired = lock.acquire().await;
                held = Some(acquired.map_err(|error| Error::Lock { path: Arc::clone(path), error })?);
                delays.reset();
            }
            let began = core.clock.now();
            if let Some(changed) = writer.attempt(change).await? {
                return Ok(changed);
            }
            refused += 1;
            tokio::time::sleep(core.next_delay(&mut delays, began)).await;
        }
    }
}

impl fmt::Debug for DistributedAtomicLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributedAtomicLong").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
