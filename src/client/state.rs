//! The connection states of a client, and the ways to follow them.

use std::fmt;
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::metrics::{Label, Level, Meter, table};
use crate::util::boxed::boxed_listener;
use crate::util::mutex::Mutex;

/// How many states a subscriber may fall behind before its stream ends with [`Lagged`].
const CAPACITY: usize = 1_024;

/// The state of a client's connection: Curator's names, in Curator's order.
///
/// A client starts `Connected`. It becomes `Suspended` when it is disconnected, or has had no proof of life for so long
/// that the ensemble may soon expire its session. It then becomes either `Reconnected` with the same session, or `Lost`
/// and then `Reconnected` with a new one. `Lost` always precedes the `Reconnected` of a new session.
///
/// The servers grant a session timeout at every connect. T is the smallest that they granted in this session, and L the
/// one that they granted on its latest connection.
///
/// | state | published when |
/// |---|---|
/// | `Connected` | the first session is open; once per client |
/// | `Suspended` | the connection broke, the server was silent for too long, or the lease expired while connected |
/// | `Reconnected` | a quorum of the ensemble has answered on a new connection, or the lease is proven again |
/// | `Lost` | the servers ended the session or refused the credentials, or L has passed since the last contact |
/// | `ReadOnly` | the client, which only reads, is connected to a read-only server; also as its first state |
///
/// A server is silent for too long if it leaves a request unanswered for 0.4 T
/// ([`silence_timeout`](crate::ClientBuilder::silence_timeout)), or a ping. The client sends a ping after T/3 without a
/// request, at most 10 s. The lease expires on an open connection when the process was paused, for example. After L
/// without contact the servers must have ended the session.
///
/// A hold ends before `Lost`: at the end of its lease, which is shorter than T and so than L, or with `Suspended` under
/// [`ErrorPolicy::Standard`]. The client gives up no session in an outage shorter than L.
///
/// ```no_run
/// use futures::StreamExt;
/// use zookeeper_recipes::{Client, ConnectionState};
///
/// # async fn example(client: Client) {
/// let mut states = client.connection_states();
/// while let Some(Ok(state)) = states.next().await {
///     if state == ConnectionState::Suspended {
///         println!("cause: {:?}", client.last_error());
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ConnectionState {
    /// The first session is open. Published once per client, unless its first state was `ReadOnly`.
    Connected,
    /// The session may be lost. Under [`ErrorPolicy::Standard`] nothing is held now.
    /// [`Client::last_error`](crate::Client::last_error) reports each server's answer to the attempts to reconnect.
    Suspended,
    /// The connection is restored: with the same session after `Suspended`, with a new one after `Lost`.
    Reconnected,
    /// The session has ended, and with it everything it held.
    Lost,
    /// Connected to a server that only answers reads, because it is in contact with no majority of the ensemble. What
    /// it tells may be old. Only a [`read_only`](crate::ClientBuilder::read_only) client uses such servers.
    ReadOnly,
}

impl ConnectionState {
    /// Returns whether requests can be sent.
    pub fn is_connected(self) -> bool {
        matches!(self, ConnectionState::Connected | ConnectionState::Reconnected | ConnectionState::ReadOnly)
    }

    fn name(self) -> &'static str {
        match self {
            ConnectionState::Connected => "connected",
            ConnectionState::Suspended => "suspended",
            ConnectionState::Reconnected => "reconnected",
            ConnectionState::Lost => "lost",
            ConnectionState::ReadOnly => "read-only",
        }
    }
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Decides which connection states end a hold: Curator's two error policies. The default is
/// [`Standard`](Self::Standard).
#[doc(alias = "ConnectionStateErrorPolicy")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ErrorPolicy {
    /// `Suspended` and `Lost` end a hold. It ends as soon as the connection is suspended, and is reacquired with the
    /// same node if the connection recovers in time.
    #[doc(alias = "StandardConnectionStateErrorPolicy")]
    #[default]
    Standard,
    /// A suspended connection does not end a hold. The hold survives an outage until the lease expires, so it never
    /// lasts longer than the ensemble keeps the session.
    ///
    /// After the client has asked a server to resume the session, and until the server answers, the lease lasts at most
    /// [two ticks](crate::ClientBuilder::min_session_timeout): the server may have granted a smaller session timeout.
    /// So an outage of all servers that lasts longer ends a hold, though the session survives it. For a session timeout
    /// after such a request, a pause of that length ends a hold too.
    #[doc(alias = "SessionConnectionStateErrorPolicy")]
    Session,
}

/// A reader of connection states fell 1 024 states behind. The stream has dropped some states, and has ended.
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
    meter: Arc<Meter>,
    /// Counts the client among the clients in the same state.
    among: Mutex<Option<Level>>,
}

impl StatePublisher {
    /// Starts with the state of the first connection: a client exists only once it is connected.
    pub(crate) fn new(meter: &Arc<Meter>, state: ConnectionState) -> Arc<Self> {
        let publisher = StatePublisher {
            latest: Mutex::new(state),
            changes: Mutex::new(Some(broadcast::Sender::new(CAPACITY))),
            meter: Arc::clone(meter),
            among: Mutex::new(None),
        };
        publisher.measure(state);
        Arc::new(publisher)
    }

    pub(crate) fn latest(&self) -> ConnectionState {
        *self.latest.lock()
    }

    /// Publishes a state, unless it is the latest already. Returns whether it was published.
    pub(crate) fn publish(&self, state: ConnectionState) -> bool {
        let mut latest = self.latest.lock();
        if *latest == state {
            return false;
        }
        *latest = state;
        if let Some(changes) = &*self.changes.lock() {
            // There may be no subscribers.
            let _ = changes.send(state);
        }
        drop(latest);
        self.measure(state);
        true
    }

    /// Ends all streams, because the client is closed.
    pub(crate) fn end(&self) {
        self.changes.lock().take();
        let among = self.among.lock().take();
        drop(among);
    }

    /// Records a state. Holds no lock while it calls the recorder, which is the user's code and may read the state.
    fn measure(&self, state: ConnectionState) {
        let held_as = if state.is_connected() { ConnectionState::Connected } else { state };
        self.meter.count(&table::STATE_CHANGES, &[Label::Is(state.name())], 1);
        let level = self.meter.level(&table::CLIENTS, &[Label::Is(held_as.name())]);
        level.set(1.0);
        let before = self.among.lock().replace(level);
        drop(before);
    }

    /// Returns the latest state, then every later one.
    pub(crate) fn subscribe(&self) -> ConnectionStates {
        // Nothing is published while this is locked, so no state is missed between the two.
        let latest = self.latest.lock();
        let changes = self.changes.lock().as_ref().map(|all| all.subscribe());
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

/// A stream of a client's connection states: the latest one first, then every change, in order and complete. A reader
/// that falls 1 024 states behind gets [`Lagged`], and the stream ends. It also ends when the client is closed.
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

/// Receives every connection state, on its own task, so a slow listener does not delay the others. If a listener
/// panics, the client reports that and removes the listener. Closures `Fn(ConnectionState) -> Future` are also
/// listeners.
pub trait ConnectionStateListener: Send + Sync + 'static {
    /// Receives one state. The first call passes the state at the time at which the listener was added; later calls
    /// pass every change.
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

boxed_listener! {
    /// A [`ConnectionStateListener`] of any type, for a collection of listeners, or one that is chosen at run time.
    ///
    /// A listener in an [`Arc`] is a listener too, so one listener can be added in several places.
    ///
    /// ```no_run
    /// use zookeeper_recipes::{
    ///     BoxConnectionStateListener, Client, ConnectionState,
    /// };
    /// # use zookeeper_recipes::ConnectionStateListener;
    ///
    /// # struct Gauge;
    /// # impl ConnectionStateListener for Gauge {
    /// #     async fn state_changed(&self, _: ConnectionState) {}
    /// # }
    /// # fn example(client: &Client) {
    /// let log = |state: ConnectionState| async move { println!("{state}") };
    /// let listeners = vec![
    ///     BoxConnectionStateListener::new(log),
    ///     BoxConnectionStateListener::new(Gauge),
    /// ];
    /// for listener in listeners {
    ///     client.add_listener(listener);
    /// }
    /// # }
    /// ```
    pub struct BoxConnectionStateListener: ConnectionStateListener {
        fn state_changed(&self, state: ConnectionState) -> ();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_subscriber_sees_the_latest_state_and_every_change_after_it() {
        let publisher = StatePublisher::new(&Arc::default(), ConnectionState::Connected);
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
    fn a_reader_too_far_behind_gets_an_error_and_its_stream_ends() {
        let publisher = StatePublisher::new(&Arc::default(), ConnectionState::Connected);
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
