//! PersistentNode: waiting for the creation, new data, and the close.

use std::time::Duration;

use tokio::time::timeout;
use zookeeper_recipes::Client;
use zookeeper_recipes::persistent_node::{NodeMode, PersistentNode};

use crate::harness::{Run, cases};

cases! {
    created: "PersistentNode::created", at least 100 drops, 65 faults;
    created_with_a_number: "PersistentNode::created", at least 110 drops, 70 faults;
    set_data: "PersistentNode::set_data", at least 100 drops, 55 faults;
    set_data_at_once: "PersistentNode::set_data", at least 100 drops, 65 faults;
    close: "PersistentNode::close", at least 130 drops, 75 faults;
    close_at_once: "PersistentNode::close", at least 100 drops, 60 faults;
    close_with_a_number_at_once: "PersistentNode::close", at least 100 drops, 60 faults;
}

const DIR: &str = "/services";
const PATH: &str = "/services/a";
/// Longer than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(60);

fn node(client: &Client, mode: NodeMode) -> PersistentNode {
    PersistentNode::builder(client, PATH).mode(mode).data("old").start().expect("it starts")
}

async fn is_there(run: &Run, node: &PersistentNode, data: &str) {
    let mut state = node.state();
    let present = timeout(PATIENCE, state.wait_for(|state| state.is_present())).await.expect("it comes");
    present.expect("it is open");
    let path = node.path().expect("it was created");
    run.in_the_end("it has the data", || run.server().get(&path).as_deref() == Some(data.as_bytes())).await;
    assert_eq!(run.server().children(DIR).len(), 1);
}

async fn is_gone_after_the_close(run: &Run, node: &PersistentNode) {
    timeout(PATIENCE, node.close()).await.expect("it ends").expect("it is repeated");
    assert!(run.server().children(DIR).is_empty());
}

/// The call only waits, and changes nothing.
async fn created(run: &mut Run) {
    created_as(run, NodeMode::Ephemeral).await;
}

async fn created_with_a_number(run: &mut Run) {
    created_as(run, NodeMode::EphemeralSequential).await;
}

async fn created_as(run: &mut Run, mode: NodeMode) {
    run.directory(DIR);
    let client = run.client().await;
    let node = node(&client, mode);
    if let Some(created) = run.cut(node.created()).await.done() {
        assert_eq!(Some(created.expect("it is repeated")), node.path());
    }
    is_there(run, &node, "old").await;
    is_gone_after_the_close(run, &node).await;
}

/// Once polled, the data counts.
async fn set_data(run: &mut Run) {
    set_data_of(run, true).await;
}

async fn set_data_at_once(run: &mut Run) {
    set_data_of(run, false).await;
}

async fn set_data_of(run: &mut Run, first_created: bool) {
    run.directory(DIR);
    let client = run.client().await;
    let node = node(&client, NodeMode::Ephemeral);
    if first_created {
        node.created().await.expect("nothing is wrong yet");
    }
    if let Some(set) = run.cut(node.set_data("new")).await.done() {
        set.expect("it is repeated");
        assert!(run.server().get(PATH).is_none_or(|data| data == b"new"));
    }
    is_there(run, &node, if run.is_polled() { "new" } else { "old" }).await;
    is_gone_after_the_close(run, &node).await;
}

/// Once polled, the node is deleted.
async fn close(run: &mut Run) {
    close_of(run, NodeMode::Ephemeral, true).await;
}

async fn close_at_once(run: &mut Run) {
    close_of(run, NodeMode::Ephemeral, false).await;
}

async fn close_with_a_number_at_once(run: &mut Run) {
    close_of(run, NodeMode::EphemeralSequential, false).await;
}

async fn close_of(run: &mut Run, mode: NodeMode, first_created: bool) {
    run.directory(DIR);
    let client = run.client().await;
    let node = node(&client, mode);
    if first_created {
        node.created().await.expect("nothing is wrong yet");
    }
    while client.request_counts().creates == 0 {
        tokio::task::yield_now().await;
    }
    match run.cut(node.close()).await.done() {
        Some(closed) => {
            closed.expect("it is repeated");
            assert!(run.server().children(DIR).is_empty());
        }
        None if run.is_polled() => run.in_the_end("it is gone", || run.server().children(DIR).is_empty()).await,
        None => is_there(run, &node, "old").await,
    }
    is_gone_after_the_close(run, &node).await;
}
