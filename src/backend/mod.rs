//! Sessions with ZooKeeper servers: what their holders get and see. The sessions themselves are in the
//! [engine](zookeeper).

pub(crate) mod check;
#[cfg(test)]
mod contract;
pub(crate) mod lacking_operations;
pub(crate) mod request_limit;
pub(crate) mod zookeeper;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use self::request_limit::TooLarge;
pub(crate) use self::zookeeper::{Ensemble, Opened, Session};
use crate::protocol::OpCode;
use crate::util::clock::Instant;
use crate::util::mutex::Mutex;
use crate::znode::{Acl, CreateMode, Stat};

/// The outcome of one request, once its reply has arrived.
pub(crate) type Reply<T> = BoxFuture<'static, Result<T, Error>>;

/// The outcome of many reads: the data and the stat of each node, or why it was not read.
pub(crate) type ManyRead = Vec<Result<(Vec<u8>, Stat), Error>>;

/// Starts a task where the session of a client is kept.
pub(crate) type Spawner = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// Why a request failed, as far as the wire can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Error {
    /// The session is not connected: the request was not sent and never will be.
    NotConnected,
    /// The connection broke before the reply: the request may have been carried out.
    ConnectionLoss,
    /// The session has ended: expired, closed or given up.
    SessionEnded,
    /// No server could be reached: the error of each. Only for the opening of a session.
    Unreachable(String),
    /// The server refused the credentials of the session.
    AuthFailed,
    NoNode,
    /// The root that the connect string names does not exist.
    NoRoot,
    NodeExists,
    NotEmpty,
    BadVersion,
    NoAuth,
    NoChildrenForEphemerals,
    InvalidAcl,
    QuotaExceeded,
    /// The server is overloaded and did not process the request.
    Throttled,
    /// The servers do not support the operation.
    Unimplemented(OpCode),
    /// The server (or the check before it) rejected the arguments.
    BadArguments(String),
    /// The request was not sent: the servers are believed to close the connection on one so long.
    TooLarge(TooLarge),
    /// The answer is longer than the client accepts. What was asked for may have been carried out.
    AnswerTooLong {
        length: usize,
        limit: usize,
    },
    /// The server has carried it out, and the answer cannot be decoded.
    Undecodable(String),
    /// Anything else, in the words of the layer below.
    Other(String),
}

impl Error {
    /// Returns whether it passes by itself, once there is a connection again.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Error::NotConnected | Error::ConnectionLoss | Error::SessionEnded | Error::Throttled)
    }

    /// Returns its name, for the metrics.
    #[cfg_attr(not(feature = "metrics"), allow(dead_code))]
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Error::NotConnected => "not_connected",
            Error::ConnectionLoss => "connection_loss",
            Error::SessionEnded => "session_ended",
            Error::Unreachable(_) => "unreachable",
            Error::AuthFailed => "auth_failed",
            Error::NoNode => "no_node",
            Error::NoRoot => "no_root",
            Error::NodeExists => "node_exists",
            Error::NotEmpty => "not_empty",
            Error::BadVersion => "bad_version",
            Error::NoAuth => "no_auth",
            Error::NoChildrenForEphemerals => "no_children_for_ephemerals",
            Error::InvalidAcl => "invalid_acl",
            Error::QuotaExceeded => "quota_exceeded",
            Error::Throttled => "throttled",
            Error::Unimplemented(_) => "unimplemented",
            Error::BadArguments(_) => "bad_arguments",
            Error::TooLarge(_) => "too_large",
            Error::AnswerTooLong { .. } => "answer_too_long",
            Error::Undecodable(_) => "undecodable",
            Error::Other(_) => "other",
        }
    }

    /// Returns whether a write that failed so may have been carried out.
    pub(crate) fn leaves_outcome_unknown(&self) -> bool {
        matches!(self, Error::ConnectionLoss | Error::SessionEnded | Error::Other(_)) || self.is_unread()
    }

    /// Returns whether there is an answer that the client could not take in.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self, Error::AnswerTooLong { .. } | Error::Undecodable(_))
    }

    /// Returns whether this is the ensemble's own verdict on the request, which needs a working connection. Errors that
    /// the layers on this side can create themselves do not count.
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

// Public as a part of the test kit's records.
/// An event of a watched node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub enum Event {
    /// The node was created.
    NodeCreated,
    /// The node was deleted.
    NodeDeleted,
    /// The node's data was written.
    NodeDataChanged,
    /// A child was created or deleted.
    NodeChildrenChanged,
    /// The session has ended; the state of the node is not known.
    SessionEnded,
}

/// An armed one-shot watch: a future that resolves once. Dropping it removes the watch.
pub(crate) struct Watch {
    /// In a mutex that is never locked: it makes the watch `Sync`, as its holder must be.
    event: Mutex<Option<BoxFuture<'static, Arrived>>>,
    arrived_at: Option<tokio::time::Instant>,
}

/// An event, and when it arrived.
pub(crate) type Arrived = (Event, tokio::time::Instant);

impl Watch {
    pub(crate) fn new(event: BoxFuture<'static, Arrived>) -> Self {
        Watch { event: Mutex::new(Some(event)), arrived_at: None }
    }

    /// Returns when its event arrived, which may be a while before its holder took it.
    pub(crate) fn arrived_at(&self) -> Option<tokio::time::Instant> {
        self.arrived_at
    }
}

impl Future for Watch {
    type Output = Event;

    /// Resolves with the event; afterwards it stays pending forever.
    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Event> {
        let slot = self.event.get_mut();
        let Some(event) = slot else {
            return std::task::Poll::Pending;
        };
        let (event, arrived_at) = std::task::ready!(event.as_mut().poll(cx));
        *slot = None;
        self.arrived_at = Some(arrived_at);
        std::task::Poll::Ready(event)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// How much of the tree a [watch](crate::Client::watch) covers. It lasts until it is removed, which ZooKeeper can since
/// 3.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchMode {
    /// The node, and the list of its children.
    Persistent,
    /// The node and everything below it. There is no event for lists of children: each child has its own.
    PersistentRecursive,
}

/// An event of a persistent watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PersistentEvent {
    /// Something happened to the node at this path.
    Node { path: String, event: Event },
    /// Events may be missing, after a reconnect or because too many were unread: read the tree again.
    Resync,
}

/// An armed persistent watch: its events, until the session ends. Dropping it removes the watch.
pub(crate) type PersistentWatch = BoxStream<'static, PersistentEvent>;

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
    /// Nothing was changed; the step at `index` is the first that failed.
    Refused {
        index: usize,
        error: Error,
    },
}

/// What the answer to a request proves, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The server at the other end has heard of the session: pings. Reads prove nothing.
    Contact,
    /// This server is in touch with the leader: syncs.
    Leader,
    /// A quorum has seen the request: writes, also those that the ensemble refused.
    Quorum,
}

/// A connection that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    /// When the client noticed. No request of the session was written between this moment and the next connection.
    pub(crate) at: Instant,
    /// When the server was last heard of: the last message read, or the close or reset of the connection.
    pub(crate) last_contact: Instant,
}

/// Observes the connection of a session. Each call is made at the moment of the event, before any waiting request
/// learns of it, and before the session's events. It must not block.
pub(crate) trait Observer: Send + Sync + fmt::Debug {
    /// Returns whether what is held outlasts a lost connection. A request to resume the session that is never answered
    /// shortens it, so a server is asked first whether it serves.
    fn outlasts_connections(&self) -> bool {
        false
    }
    /// A request to open or resume the session is about to be written. From then on the servers may use another session
    /// timeout, whether the answer arrives or not.
    fn connecting(&self, at: Instant);
    /// The connection is up, and the servers granted this session timeout on it.
    fn connected(&self, granted: Duration);
    /// A request of this connection, written at `sent`, was answered.
    fn answered(&self, sent: Instant, proof: Proof);
    /// The connection, once [connected](Self::connected), is lost. Not called at the end of a session.
    fn disconnected(&self, loss: Loss);
}

/// A change of a session's state. Every change is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    Disconnected(Loss),
    Connected,
    Expired,
    AuthFailed,
    /// The servers opened another session in its place. They keep its nodes until it expires.
    Replaced,
    /// Ended for a reason that the layer below does not name.
    Closed,
}
