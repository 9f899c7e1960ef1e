//! Shared by the tests of the barrier: a server, clients, and a barrier of each.

use zookeeper_recipes::Client;
use zookeeper_recipes::barrier::Barrier;
use zookeeper_recipes::testing::TestingServer;

pub(crate) const PATH: &str = "/gate/maintenance";

/// A server, and two clients.
pub(crate) async fn setup() -> (TestingServer, Client, Client) {
    let server = TestingServer::start();
    let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    (server, one, two)
}

pub(crate) fn barrier(client: &Client) -> Barrier {
    Barrier::new(client, PATH).expect("a good path")
}

/// Whether the barrier is set.
pub(crate) fn is_set(server: &TestingServer) -> bool {
    server.stat(PATH).is_some()
}
