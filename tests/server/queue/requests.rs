//! The requests of a queue, counted on the wire.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::fixture::{Fixture, drained, queue};
use crate::support::OpCode;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_costs_one_request_and_a_take_with_its_ack_three_and_a_share_of_a_list() {
    let fixture = Fixture::new("costs").await;
    // So long a session that no ping comes in between.
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(30), ErrorPolicy::Standard).await;
    let queue = queue(&client, &fixture.path);
    let (producer, consumer) = (queue.producer(), queue.consumer());
    producer.put("first").await.expect("put");
    drained(&consumer, 1).await;
    proxy.forget_requests();
    for _ in 0..50 {
        producer.put("a").await.expect("put");
    }
    assert_eq!(proxy.request_count(OpCode::Multi), 50);
    for _ in 0..78 {
        drop(producer.enqueue("a").await.expect("enqueued"));
    }
    producer.flush().await.expect("put");
    assert!(proxy.request_count(OpCode::Multi) < 100, "{}", proxy.request_count(OpCode::Multi));
    let before = client.request_counts();
    drained(&consumer, 128).await;
    let counts = client.request_counts() - before;
    assert_eq!((counts.multis, counts.reads), (256, 128), "{counts:?}");
    assert!(counts.lists + counts.watches <= 128 / 64 + 10, "{counts:?}");
}
