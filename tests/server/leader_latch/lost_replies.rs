//! Requests and answers that get lost with a real connection, which ends in one of three ways: never a second node,
//! never a forgotten one.

use std::time::Duration;

use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{Client, ErrorPolicy};

use super::fixture::{Fixture, SOON, What, for_each_loss, latch, leads_in_the_end, lose, reaches, waits};
use crate::support::{OpCode, unique_path, within};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

/// The latch leads, and its node is the only one.
async fn leads_alone(fixture: &Fixture, latch: &LeaderLatch, client: &Client, case: &str) {
    let leadership = leads_in_the_end(latch).await;
    let node = latch.our_path().expect("a leader has a node");
    let nodes = fixture.observer.children(latch.path()).await;
    let paths: Vec<_> = nodes.iter().map(|name| format!("{}/{name}", latch.path())).collect();
    assert_eq!(paths, [node.as_str()], "{case}");
    let stat = fixture.observer.stat(&node).await.expect("the node exists");
    assert_eq!(Some(stat.ephemeral_owner), client.session_id(), "{case}");
    assert_eq!(stat.czxid, leadership.fencing_token(), "{case}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_create_ends_in_exactly_one_node_that_leads() {
    let fixture = Fixture::new("create").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let dir = unique_path("create");
        fixture.observer.create(&dir, b"").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let session = client.session_id();
        let fault = lose(&proxy, what, OpCode::Create2, how);
        let latch = latch(&client, &dir, "lossy");
        fault.fired().await;
        if let What::Answer = what {
            fixture.observer.wait_for_children(&dir, 1).await;
        }
        leads_alone(fixture, &latch, &client, &case).await;
        assert_eq!(client.session_id(), session, "{case}: the session survived");
        let creates = if let What::Answer = what { 1 } else { 2 };
        assert_eq!(client.request_counts().creates, creates, "{case}");
        latch.close().await.expect("closed");
        assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_create_of_the_directory_ends_in_one_node_that_leads() {
    let fixture = Fixture::new("container").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let dir = format!("{}/below", unique_path("container"));
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let fault = lose(&proxy, what, OpCode::CreateContainer, how);
        let latch = latch(&client, &dir, "lossy");
        fault.fired().await;
        leads_alone(fixture, &latch, &client, &format!("{what:?} lost by {how:?}")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_listing_ends_in_one_node_at_its_place() {
    let fixture = Fixture::new("listing").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let dir = unique_path("listing");
        let other = fixture.client().await;
        let leader = latch(&other, &dir, "leader");
        leads_in_the_end(&leader).await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let fault = lose(&proxy, what, OpCode::GetChildren2, how);
        let waiter = latch(&client, &dir, "waiter");
        fault.fired().await;
        let node = waits(&waiter).await;
        assert_eq!(fixture.observer.children(&dir).await.len(), 2, "{case}");
        assert!(leader.has_leadership() && !waiter.has_leadership(), "{case}");
        assert_eq!(client.request_counts().creates, 1, "{case}: it kept its node");
        leader.close().await.expect("closed");
        leads_alone(fixture, &waiter, &client, &case).await;
        assert_eq!(waiter.our_path(), Some(node), "{case}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_watch_of_a_waiter_does_not_lose_the_change_of_leader() {
    let fixture = Fixture::new("watch").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let dir = unique_path("watch");
        let other = fixture.client().await;
        let leader = latch(&other, &dir, "leader");
        leads_in_the_end(&leader).await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let fault = lose(&proxy, what, OpCode::GetData, how);
        let waiter = latch(&client, &dir, "waiter");
        fault.fired().await;
        // The leader leaves while the waiter is cut off.
        leader.close().await.expect("closed");
        leads_alone(fixture, &waiter, &client, &case).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_delete_at_the_close_is_repeated_until_the_node_is_gone() {
    let fixture = Fixture::new("delete").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let dir = unique_path("delete");
        fixture.observer.create(&dir, b"").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let session = client.session_id();
        let latch = latch(&client, &dir, "lossy");
        leads_in_the_end(&latch).await;
        let fault = lose(&proxy, what, OpCode::Delete, how);
        within(&case, SOON, latch.close()).await.expect("closed");
        assert!(fault.has_fired(), "{case}");
        assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
        assert_eq!(client.session_id(), session, "{case}: the session survived");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_while_the_outcome_of_the_create_is_unknown_leaves_no_node() {
    let fixture = Fixture::new("unknown").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let dir = unique_path("unknown");
        fixture.observer.create(&dir, b"").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let session = client.session_id();
        let fault = lose(&proxy, what, OpCode::Create2, how);
        let latch = latch(&client, &dir, "lossy");
        fault.fired().await;
        if let What::Answer = what {
            fixture.observer.wait_for_children(&dir, 1).await;
        }
        within(&case, SOON, latch.close()).await.expect("closed");
        // Closed means: the server has deleted the node.
        assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
        assert_eq!(client.session_id(), session, "{case}: the session survived");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_dropped_while_the_outcome_of_the_create_is_unknown_leaves_no_node() {
    let fixture = Fixture::new("dropped").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let dir = unique_path("dropped");
        fixture.observer.create(&dir, b"").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let session = client.session_id();
        let fault = lose(&proxy, what, OpCode::Create2, how);
        let lossy = latch(&client, &dir, "lossy");
        fault.fired().await;
        if let What::Answer = what {
            fixture.observer.wait_for_children(&dir, 1).await;
        }
        drop(lossy);
        fixture.observer.wait_for_children(&dir, 0).await;
        // Deleted by us, not by the end of a session; and nothing comes later.
        assert_eq!(client.session_id(), session);
        let next = latch(&client, &dir, "next");
        leads_alone(fixture, &next, &client, &format!("{what:?} lost by {how:?}")).await;
        reaches(&next, zookeeper_recipes::leader_latch::LatchStatus::Leading).await;
    })
    .await;
}
