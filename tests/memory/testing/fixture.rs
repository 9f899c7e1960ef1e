//! Shared by the tests of the levers.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::Instant;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::testing::{SessionInfo, TestingServer};
use zookeeper_recipes::{Client, ConnectionState, ConnectionStates, CreateMode};

/// The session timeout of the clients here.
pub(crate) const T: Duration = Duration::from_secs(10);
/// Longer than any exchange of a few messages takes.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(100);

pub(crate) async fn connect(server: &TestingServer) -> Client {
    Client::builder_for_testing(server).session_timeout(T).connect().await.expect("a client")
}

pub(crate) async fn latch(client: &Client) -> LeaderLatch {
    LeaderLatch::builder(client, "/latch").start().expect("a latch")
}

pub(crate) async fn create(client: &Client, path: &str) {
    client.create(path, "", CreateMode::Persistent).await.expect("a new node");
}

/// The connection states of a client from now on.
pub(crate) struct States(ConnectionStates);

impl States {
    pub(crate) async fn of(client: &Client) -> States {
        let mut states = client.connection_states();
        states.next().await.expect("the state of now").expect("it is not behind");
        States(states)
    }

    /// The next states are these.
    pub(crate) async fn are(&mut self, expected: &[ConnectionState]) {
        for expected in expected {
            let state = tokio::time::timeout(T * 10, self.0.next()).await;
            let state = state.unwrap_or_else(|_| panic!("not {expected} within {:?}", T * 10));
            assert_eq!(state, Some(Ok(*expected)));
        }
    }

    /// There are no further ones yet.
    pub(crate) fn are_at_rest(&mut self) {
        assert_eq!(self.0.next().now_or_never(), None);
    }
}

/// How long `work` takes by tokio's clock, and its outcome.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let begun = Instant::now();
    let outcome = work.await;
    (begun.elapsed(), outcome)
}

/// The session of a client, as the servers know it.
pub(crate) fn session(server: &TestingServer, client: &Client) -> Option<SessionInfo> {
    let id = client.session_id()?;
    server.sessions().into_iter().find(|session| session.id == id)
}
