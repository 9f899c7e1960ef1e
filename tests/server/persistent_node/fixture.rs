//! Shared by the tests of a persistent node.

use zookeeper_recipes::Client;
use zookeeper_recipes::persistent_node::{NodeMode, NodeState, PersistentNode};

pub(crate) use crate::fixture::*;

pub(crate) const ALL: [NodeMode; 4] =
    [NodeMode::Ephemeral, NodeMode::EphemeralSequential, NodeMode::Persistent, NodeMode::Container];

pub(crate) fn node(client: &Client, path: &str, mode: NodeMode, data: &str) -> PersistentNode {
    PersistentNode::builder(client, path).mode(mode).data(data).start().expect("it starts")
}

/// Waits for this state, for several session timeouts at most.
pub(crate) async fn reaches(node: &PersistentNode, state: NodeState) {
    let mut states = node.state();
    let what = format!("it is {state}");
    let reached = within(&what, SOON * 2, states.wait_for(|now| *now == state)).await;
    drop(reached.expect("it is open"));
}

pub(crate) async fn present(node: &PersistentNode) {
    reaches(node, NodeState::Present).await;
}
