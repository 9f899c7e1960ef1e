//! What the holder of a session is told of its connection.

use std::fmt;
use std::time::Duration;

use crate::util::clock::Instant;

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
    /// This side has closed it, or gave up trying to.
    Closed,
}
