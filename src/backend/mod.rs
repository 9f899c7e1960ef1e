//! The port: the few ZooKeeper operations the recipes need, whoever carries them out.
//!
//! A request is handed over *when its method is called*, in the order of the calls; the returned future only waits
//! for the reply and may be dropped without taking the request back. While a session is not connected a request is
//! refused at once ([`Error::NotConnected`]) and never runs later.

#[cfg(test)]
mod contract;
#[cfg(feature = "testing")]
pub(crate) mod memory;
pub(crate) mod zookeeper;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::types::{Acl, CreateMode, Stat};

/// The outcome of one request, when its reply is in.
pub(crate) type Reply<T> = BoxFuture<'static, Result<T, Error>>;

/// Why a request failed, as far as the wire can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Error {
    /// The session is not connected: the request was not sent and never will be.
    NotConnected,
    /// The connection broke before the reply: the request may have been carried out.
    ConnectionLoss,
    /// The session is over: expired, closed or given up.
    SessionEnded,
    /// The server refused the credentials of the session.
    AuthFailed,
    NoNode,
    /// Not even the root that the connect string names exists.
    NoRoot,
    NodeExists,
    NotEmpty,
    BadVersion,
    NoAuth,
    NoChildrenForEphemerals,
    InvalidAcl,
    QuotaExceeded,
    /// The server is overloaded and did not look at the request.
    Throttled,
    /// The server does not know the operation.
    Unimplemented,
    /// The server (or the check before it) found fault with the arguments.
    BadArguments(String),
    /// One more watch would pass what a session can restore after a reconnect.
    TooManyWatches {
        /// How many bytes of watched path names a session may have.
        limit: usize,
    },
    /// Anything else, in the words of the layer below.
    Other(String),
}

impl Error {
    /// Whether it passes by itself, once there is a connection again.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Error::NotConnected | Error::ConnectionLoss | Error::SessionEnded | Error::Throttled)
    }

    /// Whether a write that failed so may have been carried out.
    pub(crate) fn leaves_outcome_unknown(&self) -> bool {
        matches!(self, Error::ConnectionLoss | Error::SessionEnded | Error::Other(_))
    }

    /// Whether this is the ensemble's own verdict on the request, which only a working connection can bring. Errors that
    /// the layers on this side can make up themselves do not count.
    pub(crate) fn is_verdict(&self) -> bool {
        matches!(
            self,
            Error::NoNode
                | Error::NodeExists
                | Error::NotEmpty
                | Error::BadVersion
                | Error::NoAuth
                | Error::NoChildrenForEphemerals
                | Error::QuotaExceeded
        )
    }
}

/// What happened to a watched node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Public as a part of the test kit's records.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub enum Event {
    /// It was created.
    NodeCreated,
    /// It was deleted.
    NodeDeleted,
    /// Its data was written.
    NodeDataChanged,
    /// A child was created or deleted.
    NodeChildrenChanged,
    /// The session is over; nothing is known of the node.
    SessionEnded,
}

/// An armed one-shot watch: a future that resolves once. Dropping it removes the watch.
pub(crate) struct Watch {
    /// In a mutex that is never locked: it makes the watch `Sync`, as its holder must be.
    event: Mutex<Option<BoxFuture<'static, Event>>>,
}

impl Watch {
    pub(crate) fn new(event: BoxFuture<'static, Event>) -> Self {
        Watch { event: Mutex::new(Some(event)) }
    }
}

impl Future for Watch {
    type Output = Event;

    /// Resolves with the event; afterwards it stays pending for ever.
    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Event> {
        let slot = self.event.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = slot else {
            return std::task::Poll::Pending;
        };
        let polled = event.as_mut().poll(cx);
        if polled.is_ready() {
            *slot = None;
        }
        polled
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// One step of a multi: all of its steps happen, or none.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// The node exists, and has this data version if one is given.
    Check {
        path: String,
        version: Option<i32>,
    },
    Create {
        path: String,
        data: Vec<u8>,
        mode: CreateMode,
        acls: Vec<Acl>,
    },
    SetData {
        path: String,
        data: Vec<u8>,
        version: Option<i32>,
    },
    Delete {
        path: String,
        version: Option<i32>,
    },
}

/// What one step of a committed multi did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpResult {
    Check,
    /// The path as the server named it.
    Create {
        path: String,
    },
    SetData {
        stat: Stat,
    },
    Delete,
}

/// The outcome of a multi that the server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Multi {
    Committed(Vec<OpResult>),
    /// Nothing was changed; the step at `index` is the first that could not be done.
    Refused {
        index: usize,
        error: Error,
    },
}

/// A change in the life of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    Disconnected,
    Connected,
    /// It was disconnected and is connected again; when that happened went unseen.
    Flipped,
    Expired,
    AuthFailed,
    /// Ended for a reason that the layer below does not name.
    Closed,
}

/// One ZooKeeper session.
pub(crate) trait Session: Send + Sync + fmt::Debug {
    fn id(&self) -> i64;
    /// The session timeout that the server granted.
    fn timeout(&self) -> Duration;

    /// Resolves with the created path (with its sequence number) and the stat of the node.
    fn create(&self, path: &str, data: &[u8], mode: CreateMode, acls: &[Acl]) -> Reply<(String, Stat)>;
    fn delete(&self, path: &str, version: Option<i32>) -> Reply<()>;
    fn exists(&self, path: &str) -> Reply<Option<Stat>>;
    fn watch_exists(&self, path: &str) -> Reply<(Option<Stat>, Watch)>;
    fn get_data(&self, path: &str) -> Reply<(Vec<u8>, Stat)>;
    fn watch_data(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)>;
    fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat>;
    fn list_children(&self, path: &str) -> Reply<(Vec<String>, Stat)>;
    fn watch_children(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)>;
    fn multi(&self, ops: Vec<Op>) -> Reply<Multi>;
    fn sync(&self, path: &str) -> Reply<()>;

    /// Ends the session: every pending request fails with [`Error::SessionEnded`]. Resolves when the server has been
    /// told, or never if it cannot be told.
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// A session just opened, with everything that will happen to it.
pub(crate) struct Opened {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) events: BoxStream<'static, SessionEvent>,
}

/// Where sessions come from.
pub(crate) trait Ensemble: Send + Sync + fmt::Debug {
    /// Opens one session; an error after about a session timeout if nobody answers.
    fn open(&self) -> BoxFuture<'static, Result<Opened, Error>>;
    /// The servers, as a person would name them.
    fn servers(&self) -> String;
}
