//! The connection states of a client, and the ways to follow them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// How many states a subscriber may fall behind before its stream ends with [`Lagged`].
const CAPACITY: usize = 1_024;

/// The state of a client's connection: Curator's names, in Curator's order.
///
/// A client starts `Connected`. It is `Suspended` while it is disconnected, or was without proof of life for so long that the
/// ensemble may soon expire its session. It then becomes either `Reconnected` with the same session, or `Lost` and then
/// `Reconnected` with a new one. `Lost` always comes before the `Reconnected` of a new session.
///
/// The servers grant a session timeout at every connect. With T the smallest that they granted in this session, and L the one
/// that they granted on its latest connection, each state is published when:
///
/// | state | when |
/// |---|---|
/// | `Connected` | the first session is open; once per client |
/// | `Suspended` | the connection broke; or the server left a request unanswered for 0.4 T ([`silence_timeout`](crate::ClientBuilder::silence_timeout)), or a ping, which is sent after T/3, at most 10 s, without a request; or the lease expired on an open connection, as after a pause of the process |
/// | `Reconnected` | a quorum of the ensemble has answered on a new connection; or the lease is proven again |
/// | `Lost` | the servers reported the end of the session; or L has passed since the last contact, so that they must have ended it; or they refused the credentials |
///
/// What is held ends before `Lost`: at the end of its lease, which is shorter than T and so than L, or with `Suspended` under
/// [`ErrorPolicy::Standard`]. The client gives up no session in an outage shorter than L.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The first session is open. Published once per client.
    Connected,
    /// The session may be lost: under [`ErrorPolicy::Standard`] nothing is held now.
    /// [`Client::last_error`](crate::Client::last_error) tells each server's answer to the attempts to reconnect.
    Suspended,
    /// The connection is back: with the same session after `Suspended`, with a new one after `Lost`.
    Reconnected,
    /// The session is gone, and with it everything it held.
    Lost,
    /// Connected to a read-only server. Not used in this version: such servers are avoided.
    ReadOnly,
}

impl ConnectionState {
    /// Whether requests can be sent.
    pub fn is_connected(self) -> bool {
        matches!(self, ConnectionState::Connected | ConnectionState::Reconnected | ConnectionState::ReadOnly)
    }
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectionState::Connected => "connected",
            ConnectionState::Suspended => "suspended",
            ConnectionState::Reconnected => "reconnected",
            ConnectionState::Lost => "lost",
            ConnectionState::ReadOnly => "read-only",
        })
    }
}

/// Which connection states end what is held: Curator's two error policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ErrorPolicy {
    /// `Suspended` and `Lost`: what is held is given up as soon as the connection is in doubt, and reacquired with the same
    /// node if the connection recovers in time.
    #[default]
    Standard,
    /// Only `Lost`: what is held survives a short outage, but never longer than the lease, so never longer than the ensemble
    /// keeps the session. Once a server was asked to resume the session and has not answered, the lease lasts at most
    /// [two ticks](crate::ClientBuilder::min_session_timeout): the server may have granted a smaller session timeout. So an
    /// outage of all servers that lasts longer ends what is held, though the session survives it.
    Session,
}

/// The reader fell 1 024 states behind: the stream has lost some, and has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{missed} connection states were not read in time and are lost; subscribe again")]
pub struct Lagged {
    /// How many states were lost.
    pub missed: u64,
}

/// Publishes the states of one client.
#[derive(Debug)]
pub(crate) struct StatePublisher {
    latest: Mutex<ConnectionState>,
    changes: Mutex<Option<broadcast::Sender<ConnectionState>>>,
}

impl StatePublisher {
    /// Starts as `Connected`: a client exists only once it is connected.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(StatePublisher {
            latest: Mutex::new(ConnectionState::Connected),
            changes: Mutex::new(Some(broadcast::Sender::new(CAPACITY))),
        })
    }

    pub(crate) fn latest(&self) -> ConnectionState {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a state, unless it is the latest already. Returns whether it has.
    pub(crate) fn publish(&self, state: ConnectionState) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if *latest == state {
            return false;
        }
        *latest = state;
        if let Some(changes) = &*self.changes.lock().unwrap_or_else(PoisonError::into_inner) {
            // No subscribers is fine.
            let _ = changes.send(state);
        }
        true
    }

    /// Ends all streams: the client is closed.
    pub(crate) fn end(&self) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The latest state, then every later one.
    pub(crate) fn subscribe(&self) -> ConnectionStates {
        // Nothing is published under this lock, so no state is missed between the two.
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|all| all.subscribe());
        let first = futures::stream::iter([Ok(*latest)]);
        let later = futures::stream::unfold(changes, |changes| async move {
            let mut changes = changes?;
            match changes.recv().await {
                Ok(state) => Some((Ok(state), Some(changes))),
                Err(RecvError::Lagged(missed)) => Some((Err(Lagged { missed }), None)),
                Err(RecvError::Closed) => None,
            }
        });
        ConnectionStates { states: first.chain(later).fuse().boxed() }
    }
}

/// The connection states of a client: the latest one first, then every change, in order, with none left out. A reader
/// that falls 1 024 states behind gets [`Lagged`] and the end. Ends when the client is closed.
pub struct ConnectionStates {
    states: BoxStream<'static, Result<ConnectionState, Lagged>>,
}

impl futures::Stream for ConnectionStates {
    type Item = Result<ConnectionState, Lagged>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.states.poll_next_unpin(cx)
    }
}

impl fmt::Debug for ConnectionStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionStates").finish_non_exhaustive()
    }
}

/// Receives every connection state, in its own task: a slow listener delays no other, and one that panics is reported and
/// removed. Closures `Fn(ConnectionState) -> Future` are listeners too.
pub trait ConnectionStateListener: Send + Sync + 'static {
    /// The first call passes the state at the time the listener was added, the others every change.
    fn state_changed(&self, state: ConnectionState) -> impl Future<Output = ()> + Send;
}

impl<F, Fut> ConnectionStateListener for F
where
    F: Fn(ConnectionState) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    fn state_changed(&self, state: ConnectionState) -> impl Future<Output = ()> + Send {
        self(state)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_subscriber_sees_the_latest_state_and_every_change_after_it() {
        let publisher = StatePublisher::new();
        publisher.publish(ConnectionState::Suspended);
        let mut states = publisher.subscribe();
        publisher.publish(ConnectionState::Suspended);
        publisher.publish(ConnectionState::Lost);
        publisher.publish(ConnectionState::Reconnected);
        publisher.end();
        let seen: Vec<_> = std::iter::from_fn(|| states.next().now_or_never().flatten()).collect();
        assert_eq!(seen, [Ok(ConnectionState::Suspended), Ok(ConnectionState::Lost), Ok(ConnectionState::Reconnected)]);
    }

    #[test]
    fn a_reader_too_far_behind_is_told_and_its_stream_ends() {
        let publisher = StatePublisher::new();
        let mut states = publisher.subscribe();
        assert_eq!(states.next().now_or_never(), Some(Some(Ok(ConnectionState::Connected))));
        for _ in 0..CAPACITY / 2 + 1 {
            publisher.publish(ConnectionState::Suspended);
            publisher.publish(ConnectionState::Reconnected);
        }
        assert_eq!(states.next().now_or_never(), Some(Some(Err(Lagged { missed: 2 }))));
        assert_eq!(states.next().now_or_never(), Some(None));
    }
}
