//! What an election costs: requests by kind, as the client counts them and as they go over the wire.

use std::time::Duration;

use zookeeper_recipes::{Client, ErrorPolicy, RequestCounts};

use super::scene::{A_WHILE, SOON, Scene, leads, stands};
use crate::support::{OpCode, Proxy, eventually};

/// Waits until the watch on the own node is sent, and then whether more comes.
async fn settled(client: &Client, total: u64) -> RequestCounts {
    eventually("the last request is sent", SOON, || async { client.request_counts().total() >= total }).await;
    // An observation: nothing else follows.
    tokio::time::sleep(A_WHILE).await;
    client.request_counts()
}

/// Everything that came over the wire, without what keeps the session.
fn on_the_wire(proxy: &Proxy) -> Vec<OpCode> {
    let all = proxy.requests().into_iter().map(|request| request.op);
    all.filter(|op| !matches!(op, OpCode::Ping | OpCode::Sync)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_lead_uncontended_costs_one_create_one_list_and_one_watch_and_to_leave_one_delete() {
    let scene = Scene::with_directory("costs").await;
    // So long a session that no ping comes in between.
    let (proxy, client) = scene.client_behind_proxy(Duration::from_secs(30), ErrorPolicy::Standard).await;
    proxy.forget_requests();
    let latch = scene.latch(&client, "alone");
    leads(&latch).await;
    let counts = settled(&client, 3).await;
    assert_eq!((counts.creates, counts.lists, counts.watches), (1, 1, 1), "{counts:?}");
    assert_eq!(counts.total(), 3, "{counts:?}");
    assert_eq!(on_the_wire(&proxy), [OpCode::Create2, OpCode::GetChildren2, OpCode::GetData]);

    proxy.forget_requests();
    latch.close().await.expect("closed");
    let after = settled(&client, 4).await - counts;
    assert_eq!((after.deletes, after.total()), (1, 1), "{after:?}");
    assert_eq!(on_the_wire(&proxy), [OpCode::Delete]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_costs_the_waiter_nothing() {
    let scene = Scene::with_directory("failover").await;
    let (leader_client, waiter_client) = (scene.client().await, scene.client().await);
    let leader = scene.latch(&leader_client, "leader");
    leads(&leader).await;
    let waiter = scene.latch(&waiter_client, "waiter");
    stands(&waiter).await;
    let entered = settled(&waiter_client, 4).await;
    // Its own node and the one before it are watched.
    assert_eq!((entered.creates, entered.lists, entered.watches), (1, 1, 2), "{entered:?}");
    assert_eq!(entered.total(), 4, "{entered:?}");

    leader.close().await.expect("closed");
    leads(&waiter).await;
    assert_eq!((settled(&waiter_client, 0).await - entered).total(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_costs_six_heartbeats_in_a_session_timeout_and_nothing_without_a_latch() {
    let scene = Scene::with_directory("heartbeats").await;
    let client =
        super::scene::connect(super::scene::builder(&scene.server.connect_string(), Duration::from_secs(2))).await;
    // An observation: a client that nobody uses sends nothing but pings.
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(client.request_counts(), RequestCounts::default());
    let latch = scene.latch(&client, "beating");
    leads(&latch).await;
    let before = client.request_counts();
    // An observation over one session timeout.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let beats = (client.request_counts() - before).heartbeats;
    assert!((4..=8).contains(&beats), "{beats} heartbeats");
    latch.close().await.expect("closed");
    // For a few seconds the lease is kept for the next user.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let closed = client.request_counts();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((client.request_counts() - closed).heartbeats, 0);
}
