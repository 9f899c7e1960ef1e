//! Requests and answers that get lost, in each way in which a connection can end.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::persistent_node::NodeMode;

use super::fixture::{Fixture, SOON, node, present};
use crate::fixture::{for_each_loss, lose};
use crate::support::{OpCode, unique_path, within};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_lost_there_is_one_node_with_the_latest_data_and_none_after_the_close() {
    let fixture = Fixture::new("lost").await;
    let fixture = &fixture;
    for mode in [NodeMode::Ephemeral, NodeMode::EphemeralSequential, NodeMode::Persistent] {
        for_each_loss(async |what, how| {
            let case = format!("{mode:?}, {what:?} {how:?}");
            let dir = unique_path("lost");
            fixture.observer.create(&dir, b"").await;
            let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
            let fault = lose(&proxy, what, OpCode::Create2, how);
            let node = node(&client, &format!("{dir}/n"), mode, "old");
            let path = within("it is created", SOON * 2, node.created()).await.expect("created");
            present(&node).await;
            assert!(fault.has_fired(), "{case}");
            let fault = lose(&proxy, what, OpCode::SetData, how);
            within("it is written", SOON * 2, node.set_data("new")).await.expect("written");
            assert!(fault.has_fired(), "{case}");
            assert_eq!(fixture.observer.children(&dir).await.len(), 1, "{case}");
            fixture.observer.wait_for_data(&path, b"new").await;
            let fault = lose(&proxy, what, OpCode::Delete, how);
            within("it is closed", SOON * 2, node.close()).await.expect("closed");
            assert!(fault.has_fired(), "{case}");
            assert!(fixture.observer.children(&dir).await.is_empty(), "{case}");
        })
        .await;
    }
}
