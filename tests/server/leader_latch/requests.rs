//! The requests of an election, counted on the wire. Those of a failover and of the lease are counted in memory.

use std::time::Duration;

use zookeeper_recipes::{Client, ErrorPolicy, RequestCounts};

use super::fixture::{A_WHILE, Fixture, SOON, leads};
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
    let fixture = Fixture::with_directory("costs").await;
    // So long a session that no ping comes in between.
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(30), ErrorPolicy::Standard).await;
    proxy.forget_requests();
    let latch = fixture.latch(&client, "alone");
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
