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
/// A client starts `Connected`. It is `Suspended` while it is cut off or has gone so long without proof of life that
/// the ensemble may soon forget its session; from there it either is `Reconnected` with the same session, or `Lost`, and
/// `Reconnected` with a new one. `Lost` always comes before the `Reconnected` of a new session.
///
/// With T the session timeout that the servers granted, each is told when:
///
/// | state | when |
/// |---|---|
/// | `Suspended` | the connection broke, or the server left a request or a ping (the latter after T/3 without any) unanswered for 0.4 T; or the lease ran out on a standing connection, as after a stop of the process |
/// | `Reconnected` | the ensemble's leader has answered on a new connection; or the lease is proven again |
/// | `Lost` | the servers said that the session is over; or T has passed since the last contact, so that they must have ended it |
///
/// What is held ends earlier than `Lost`: at the end of its lease, with `Suspended` under [`ErrorPolicy::Standard`]. An
/// outage shorter than T keeps the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The first session is open. Comes once in the life of a client.
    Connected,
    /// The session may be lost: under [`ErrorPolicy::Standard`] nothing is held now. [`Client::last_error`](crate::Client::last_error)
    /// tells what each server said to the attempts to reconnect.
    Suspended,
    /// The connection is back: with the same session after `Suspended`, with a new one after `Lost`.
    Reconnected,
    /// The session is gone, and with it everything it held.
    Lost,
    /// Connected to a server that only reads. Not used in this version: such servers are avoided.
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
    /// `Suspended` and `Lost`: whatever is held is given up as soon as the connection is in doubt, and regained with the
    /// same node when it comes back in time.
    #[default]
    Standard,
    /// Only `Lost`: what is held survives a short outage, but never longer than the lease, so never longer than the
    /// ensemble keeps the session. Once a server has been asked to take the session up again and has not answered, that is
    /// [two ticks](crate::ClientBuilder::min_session_timeout): it may have granted a smaller session timeout.
    Session,
}

/// The stream was not read for 1 024 states and has lost some; it has ended.
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
    /// A client exists only once it is connected.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(StatePublisher {
            latest: Mutex::new(ConnectionState::Connected),
            changes: Mutex::new(Some(broadcast::Sender::new(CAPACITY))),
        })
    }

    pub(crate) fn latest(&self) -> ConnectionState {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a state, unless it is the latest already.
    pub(crate) fn publish(&self, state: ConnectionState) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if *latest == state {
            return;
        }
        *latest = state;
        if let Some(changes) = &*self.changes.lock().unwrap_or_else(PoisonError::into_inner) {
            // Nobody listening is fine.
            let _ = changes.send(state);
        }
    }

    /// Ends all streams: the client is closed.
    pub(crate) fn end(&self) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The latest state, then every later one.
    pub(crate) fn subscribe(&self) -> ConnectionStates {
        // Under this lock nothing is published, so nothing falls between the two.
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

/// Is told every connection state, on a task of its own: a slow listener delays nobody else, and a panicking one is
/// reported and removed. Closures `Fn(ConnectionState) -> Future` are listeners too.
pub trait ConnectionStateListener: Send + Sync + 'static {
    /// The first call brings the state at the time the listener was added, the others every change.
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
