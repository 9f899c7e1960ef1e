//! The client: sessions that are replaced when they end, connection states, retries, guaranteed deletes.

pub(crate) mod builder;
pub(crate) mod core;
pub(crate) mod delays;
mod error;
#[cfg(any(feature = "queue", feature = "throughput-balancer"))]
pub(crate) mod events;
mod fence;
mod janitor;
mod keepalive;
pub(crate) mod lease;
pub(crate) mod listener;
pub(crate) mod open;
pub(crate) mod ops;
pub(crate) mod owned_node;
pub(crate) mod parents;
pub(crate) mod pool;
pub(crate) mod protection;
pub(crate) mod random;
mod requests;
mod retry;
pub(crate) mod runtime;
mod security;
pub(crate) mod session;
mod state;
mod supervisor;
mod transaction;

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
#[cfg(feature = "sasl-digest-md5")]
pub use self::security::Sasl;
#[cfg(feature = "tls")]
pub use self::security::Tls;
pub use self::state::{ConnectionState, ConnectionStateListener, ConnectionStates, ErrorPolicy, Lagged};
pub use self::transaction::{Transaction, TransactionResult};

/// A connection to an ensemble that lasts: when a session ends, the next one is opened, and every recipe made with the
/// client takes its place again by itself.
///
/// Cheap to clone; all clones share one session. When the last one is dropped (recipes hold clones), the session is
/// closed in the background; [`close`](Self::close) waits for it.
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
/// client.create("/greetings/hello", "world", CreateMode::Ephemeral).await?;
/// client.close().await
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    owner: Arc<Owner>,
}

/// Ends the client when its last handle goes.
struct Owner {
    core: Arc<Core>,
    /// Some when everything is over: whether the server was told.
    told: watch::Receiver<Option<bool>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.core.closing.send_replace(true);
    }
}

impl Client {
    /// The options of a client for the ensemble that `connect_string` names: `host[:port][,host[:port]…][/root]`, as for
    /// ZooKeeper's own clients. The port is 2181 by default, an IPv6 address stands in brackets; every path is below `root`,
    /// which must exist. `tcp+tls://` before a host asks for encryption of that one, `tcp://` for none.
    pub fn builder(connect_string: impl AsRef<str>) -> ClientBuilder {
        ClientBuilder::new(connect_string.as_ref())
    }

    /// The state of the connection now, or the last one if the client [is closed](Self::is_closed). What recipes hold has
    /// its own answers, which also heed the clock.
    pub fn connection_state(&self) -> ConnectionState {
        self.core().states.latest()
    }

    /// The state of the connection now, then every change.
    pub fn connection_states(&self) -> ConnectionStates {
        self.core().states.subscribe()
    }

    /// Tells `listener` the state of the connection now, then every change, on a task of its own.
    pub fn add_listener(&self, listener: impl ConnectionStateListener) -> ListenerHandle {
        listener::follow_states(self.core(), listener)
    }

    /// Whether the client has been closed, or its runtime has ended: nothing works any more.
    pub fn is_closed(&self) -> bool {
        *self.core().closing.borrow()
    }

    /// The id of the session in use, as the servers log it in hexadecimal (`{:#x}`); `None` between two sessions.
    pub fn session_id(&self) -> Option<i64> {
        match &*self.core().current.borrow() {
            Current::Live(session) => Some(session.id()),
            _ => None,
        }
    }

    /// The session timeout that the servers granted on the latest connection: a reconnect can change it. `None` between two
    /// sessions.
    pub fn session_timeout(&self) -> Option<std::time::Duration> {
        match &*self.core().current.borrow() {
            Current::Live(session) => Some(session.timeout()),
            _ => None,
        }
    }

    /// The last error that no caller awaited: a session that could not be opened, a node that could not be deleted, a
    /// listener that panicked.
    ///
    /// While there is no connection it tells what each server said to the latest attempts.
    pub fn last_error(&self) -> Option<Error> {
        self.core().last_error()
    }

    /// How many requests were sent so far.
    pub fn request_counts(&self) -> RequestCounts {
        self.core().log.counts()
    }

    /// Changes that happen together or not at all.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(self.core()))
    }

    /// Ends the session and waits until the server has been told, so that others take over at once. Whatever recipes of
    /// this client still hold is lost; their handles stay usable and say so. Closing twice is fine.
    ///
    /// # Errors
    /// [`ErrorKind::ConnectionLoss`] if no server could be told: then the session ends by its timeout.
    ///
    /// # Cancel safety
    /// Once polled, the session is closed in the background also if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.core().closing.send_replace(true);
        let mut told = self.owner.told.clone();
        let told = told.wait_for(|told| told.is_some()).await.is_ok_and(|told| *told == Some(true));
        if told {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ConnectionLoss,
            "close: no server could be told; the session ends when its timeout is over",
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
