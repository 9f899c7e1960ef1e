//! The client: it replaces a session that has ended, publishes connection states, retries requests, and guarantees
//! deletes.

pub(crate) mod builder;
mod checks;
pub(crate) mod connect;
pub(crate) mod core;
mod delete;
mod delete_recursive;
mod deletion;
mod error;
pub(crate) mod events;
mod fence;
mod janitor;
mod keepalive;
pub(crate) mod lease;
pub(crate) mod listener;
pub(crate) mod ops;
pub(crate) mod owned_node;
pub(crate) mod parents;
pub(crate) mod platform;
pub(crate) mod protection;
pub(crate) mod read_together;
mod requests;
mod retry;
pub(crate) mod runtime;
mod security;
pub(crate) mod sequence;
mod server_list;
pub(crate) mod session;
mod state;
mod supervisor;
pub(crate) mod task;
mod transaction;
mod watch_events;

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

pub use self::builder::ClientBuilder;
pub use self::core::Heartbeat;
use self::core::{Core, Current};
pub use self::error::{Error, ErrorKind};
pub use self::fence::Fence;
pub use self::listener::ListenerHandle;
pub use self::requests::RequestCounts;
pub use self::retry::{InvalidRetryPolicy, RetryPolicy};
pub use self::security::Sasl;
#[cfg(feature = "tls")]
pub use self::security::Tls;
pub use self::server_list::ServerList;
pub use self::state::{
    BoxConnectionStateListener, ConnectionState, ConnectionStateListener, ConnectionStates, ErrorPolicy, Lagged,
};
pub use self::transaction::{Transaction, TransactionResult};
pub use self::watch_events::{WatchEvent, WatchEvents};
pub use crate::engine::WatchMode;

/// A lasting connection to an ensemble. When its session ends, the client opens a new one, and every recipe made with
/// the client rejoins automatically.
///
/// A client is cheap to clone; all clones share one session. When the last clone is dropped (recipes hold clones), the
/// session is closed in the background. [`close`](Self::close) waits for that.
///
/// ```no_run
/// use std::time::Duration;
/// use zookeeper_recipes::{Client, CreateMode};
///
/// # async fn example() -> Result<(), zookeeper_recipes::Error> {
/// let client = Client::builder("zk1:2181,zk2:2181,zk3:2181")
///     .namespace("/my-service")
///     .session_timeout(Duration::from_secs(10))
///     .connect()
///     .await?;
/// client.create_containers("/greetings").await?;
/// client
///     .create("/greetings/hello", "world", CreateMode::Ephemeral)
///     .await?;
/// client.close().await
/// # }
/// ```
#[doc(alias = "CuratorFramework")]
#[derive(Clone)]
pub struct Client {
    owner: Arc<Owner>,
}

/// Closes the client when its last handle is dropped.
struct Owner {
    core: Arc<Core>,
    /// `Some` once the client is closed: whether the server was informed.
    closed: watch::Receiver<Option<bool>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.core.closing.send_replace(true);
    }
}

impl Client {
    /// Returns the options of a client for the ensemble that `connect_string` names:
    /// `host[:port][,host[:port]…][/root]`, as for ZooKeeper's own clients.
    ///
    /// The port is 2181 by default. An IPv6 address is written in brackets. Every path is relative to `root`, which
    /// must exist. `tcp+tls://` before a host encrypts the connection to that host, `tcp://` leaves it unencrypted.
    #[doc(alias = "newClient")]
    #[doc(alias = "connectString")]
    pub fn builder(connect_string: impl AsRef<str>) -> ClientBuilder {
        ClientBuilder::new(connect_string.as_ref())
    }

    /// Returns the current state of the connection, or the last one if the client [is closed](Self::is_closed). To
    /// check a hold, use the recipe's own methods: they also compare the clock.
    pub fn connection_state(&self) -> ConnectionState {
        self.core().states.latest()
    }

    /// Returns the current state of the connection, then every change.
    pub fn connection_states(&self) -> ConnectionStates {
        self.core().states.subscribe()
    }

    /// Calls `listener` with the current state of the connection, then with every change, on a task of its own.
    #[doc(alias = "getConnectionStateListenable")]
    pub fn add_listener(&self, listener: impl ConnectionStateListener) -> ListenerHandle {
        listener::follow_states(self.core(), listener)
    }

    /// Returns whether the client has been closed, or its runtime has ended. Such a client cannot be used any more.
    pub fn is_closed(&self) -> bool {
        *self.core().closing.borrow()
    }

    /// Checks the arguments of a recipe's builder: `path` must name a node below the root, and this client must be
    /// open, and write.
    pub(crate) fn open_path(&self, path: &str) -> Result<(), Error> {
        self.open_path_to_read(path)?;
        self.core().check_writes("build a recipe at", path)
    }

    /// Does the same as `open_path` for a recipe that is of use to a client that only reads.
    pub(crate) fn open_path_to_read(&self, path: &str) -> Result<(), Error> {
        crate::util::path::validate(path)?;
        if self.is_closed() { Err(Error::closed("client")) } else { Ok(()) }
    }

    /// Returns the id of the current session; `None` between two sessions. The servers log it in hexadecimal (`{:#x}`).
    pub fn session_id(&self) -> Option<i64> {
        match &*self.core().current.borrow() {
            Current::Live(session) => Some(session.id()),
            _ => None,
        }
    }

    /// Returns the session timeout that the servers granted on the latest connection; `None` between two sessions. A
    /// reconnect can change it.
    pub fn session_timeout(&self) -> Option<std::time::Duration> {
        match &*self.core().current.borrow() {
            Current::Live(session) => Some(session.timeout()),
            _ => None,
        }
    }

    /// Returns how long anything that this client holds can last if no server answers from now on: zero if that time is
    /// over, `None` between two sessions.
    ///
    /// An answered heartbeat extends it; an attempt to reconnect can shorten it. A hold may also end earlier, as the
    /// [`ErrorPolicy`] says, and its guard reports that. Use this to decide how much time is left to stop work that
    /// cannot stop at once, such as a child process.
    ///
    /// ```no_run
    /// # async fn example(client: zookeeper_recipes::Client) {
    /// if let Some(left) = client.remaining_lease() {
    ///     println!("the work must be able to end within {left:?}");
    /// }
    /// # }
    /// ```
    pub fn remaining_lease(&self) -> Option<std::time::Duration> {
        match &*self.core().current.borrow() {
            Current::Live(session) => Some(session.lease().remaining()),
            _ => None,
        }
    }

    /// Returns the last error that no caller awaited: a session that could not be opened, a node that could not be
    /// deleted, a listener that panicked.
    ///
    /// While there is no connection, it returns what each server answered to the latest attempts instead, until the
    /// reconnect. The end of a session is not an error: see [`connection_states`](Self::connection_states).
    #[doc(alias = "UnhandledErrorListener")]
    pub fn last_error(&self) -> Option<Error> {
        self.core().last_error()
    }

    /// Returns how many requests the client has sent so far.
    pub fn request_counts(&self) -> RequestCounts {
        self.core().log.counts()
    }

    /// Returns an empty [`Transaction`], for changes that happen together or not at all.
    #[doc(alias = "inTransaction")]
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(self.core()))
    }

    /// Ends the session and waits until the server has been informed, so that other processes take over at once.
    /// Everything that recipes of this client still hold is lost; their handles stay usable and report the loss.
    /// Closing twice is fine.
    ///
    /// Requests that were sent before are still carried out, and their callers get the answers. A write without an
    /// answer by then fails with [`ErrorKind::OutcomeUnknown`].
    ///
    /// # Errors
    /// [`ErrorKind::ConnectionLoss`] if no server could be informed. The session then ends by its timeout.
    ///
    /// # Cancel safety
    /// Once polled, the session is closed in the background even if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.core().closing.send_replace(true);
        let mut closed = self.owner.closed.clone();
        let is_informed = closed.wait_for(|closed| closed.is_some()).await.is_ok_and(|closed| *closed == Some(true));
        if is_informed {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ConnectionLoss,
            "close: no server could be informed; the session ends when its timeout is over",
        ))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("servers", &self.core().config.servers)
            .field("state", &self.connection_state())
            .finish_non_exhaustive()
    }
}
