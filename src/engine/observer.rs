//! What the owner of a session learns about its connection.

use std::fmt;
use std::time::Duration;

use crate::util::clock::Instant;

/// What the answer to a request proves, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The server at the other end knows the session. Pings prove this; reads prove nothing.
    Contact,
    /// This server is in contact with the leader. Syncs prove this.
    Leader,
    /// A quorum has seen the request. Writes prove this, even those that the ensemble refused.
    Quorum,
}

/// A connection that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    /// When the client noticed. No request of the session was written between this moment and the next connection.
    pub(crate) at: Instant,
    /// When the server was last heard from: the last message read, or the close or reset of the connection.
    pub(crate) last_contact: Instant,
}

/// Observes the connection of a session. Each method is called at the moment of the event, before any waiting request
/// learns of it, and before the session's events. It must not block.
pub(crate) trait Observer: Send + Sync + fmt::Debug {
    /// Returns whether what the client holds outlasts a lost connection. An unanswered request to resume the session
    /// shortens that time, so servers are asked first whether they serve.
    fn outlasts_connections(&self) -> bool {
        false
    }
    /// A request to open or resume the session is about to be written. From then on the servers may apply another
    /// session timeout, even if the answer never arrives.
    fn connecting(&self, at: Instant);
    /// The connection is up, and the servers granted this session timeout on it.
    fn connected(&self, granted: Duration);
    /// The same on a read-only server, if the options accept one. It is in contact with no majority of the ensemble, so
    /// its answers prove nothing.
    fn connected_read_only(&self, granted: Duration) {
        self.connected(granted);
    }
    /// A request of this connection, written at `sent`, was answered.
    fn answered(&self, sent: Instant, proof: Proof);
    /// The connection was lost after it was [connected](Self::connected). Not called when the session ends.
    fn disconnected(&self, loss: Loss);
}

/// A change of a session's state. Every change is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    Disconnected(Loss),
    Connected,
    Expired,
    AuthFailed,
    /// The servers opened another session instead of resuming this one. They keep its nodes until it expires.
    Replaced,
    /// The client closed the session, or gave up trying to.
    Closed,
}
