//! Shared by the tests of a persistent node: a path, and helpers.

use std::time::Duration;

use futures::future::try_join_all;
use zookeeper_recipes::persistent_node::{NodeMode, NodeState, PersistentNode};
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::T;

pub(crate) const DIR: &str = "/services/api";
pub(crate) const PATH: &str = "/services/api/a";

/// All modes in which the path is as it was asked for.
pub(crate) const FIXED: [NodeMode; 3] = [NodeMode::Ephemeral, NodeMode::Persistent, NodeMode::Container];

/// How a node of this mode is looked at.
pub(crate) fn look_of(mode: NodeMode) -> Operation {
    match mode {
        NodeMode::Ephemeral | NodeMode::EphemeralSequential => Operation::List,
        _ => Operation::GetData,
    }
}

/// A server on which the directory exists, and so many clients.
pub(crate) async fn setup<const CLIENTS: usize>() -> (TestingServer, [Client; CLIENTS]) {
    let server = TestingServer::start();
    for path in ["/services", DIR] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a new node");
    }
    let clients = try_join_all((0..CLIENTS).map(|_| server.client())).await.expect("clients");
    (server, clients.try_into().expect("as many as were asked for"))
}

/// A node of this mode at `PATH`, with data.
pub(crate) fn node_of(client: &Client, mode: NodeMode, data: &str) -> PersistentNode {
    PersistentNode::builder(client, PATH).mode(mode).data(data).start().expect("it starts")
}

/// An ephemeral node at `PATH`, with data.
pub(crate) fn node(client: &Client, data: &str) -> PersistentNode {
    node_of(client, NodeMode::Ephemeral, data)
}

/// Waits for a state like this, for three session timeouts at most.
pub(crate) async fn reaches(node: &PersistentNode, what: &str, is: impl Fn(&NodeState) -> bool) {
    let mut states = node.state();
    let reached = tokio::time::timeout(T * 3, states.wait_for(|state| is(state)));
    let reached = reached.await.unwrap_or_else(|_| panic!("it is not {what} but {node:?}"));
    reached.unwrap_or_else(|_| panic!("it has ended before it was {what}"));
}

pub(crate) async fn present(node: &PersistentNode) {
    reaches(node, "present", |state| *state == NodeState::Present).await;
}

pub(crate) async fn waits(node: &PersistentNode) {
    reaches(node, "waiting", |state| *state == NodeState::Waiting).await;
}

pub(crate) async fn fails(node: &PersistentNode) {
    reaches(node, "failed", |state| state.error().is_some()).await;
}

/// Asserts that the node is there with this data, and belongs to the session of the client.
pub(crate) fn is_there(server: &TestingServer, client: &Client, path: &str, data: &str) {
    let stat = server.stat(path).unwrap_or_else(|| panic!("{path} is not there: {:?}", server.paths()));
    assert_eq!(Some(stat.ephemeral_owner), client.session_id(), "{path}");
    assert_eq!(server.get(path).as_deref(), Some(data.as_bytes()), "{path}");
}

/// Lets everything happen that is under way, also after the longest delay between two deletions.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_secs(6)).await;
}
