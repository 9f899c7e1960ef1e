//! Requests and answers that get lost: nothing is put twice, nothing is lost, no claim is forgotten.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::fixture::{Fixture, SOON, drained, for_each_loss, lose, queue, taken};
use crate::support::{OpCode, unique_path, within};

/// Long enough for a silent connection to be noticed, and to be back in time.
const SESSION: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_put_is_in_the_queue_once_and_in_order() {
    let fixture = Fixture::new("put").await;
    let fixture = &fixture;
    for_each_loss(async |what, how| {
        let case = format!("{what:?} lost by {how:?}");
        let dir = unique_path("put");
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
        let session = client.session_id();
        let producer = queue(&client, &dir).producer();
        producer.put("first").await.expect("put");
        let fault = lose(&proxy, what, OpCode::Multi, how);
        for number in 0..100 {
            drop(producer.enqueue(format!("{number:02}")).await.expect("enqueued"));
        }
        within("all is put", SOON, producer.flush()).await.expect("known");
        assert!(fault.has_fired(), "{case}");
        assert_eq!(client.session_id(), session, "{case}: the session survived");
        let items = drained(&queue(&fixture.client().await, &dir).consumer(), 101).await;
        assert_eq!(items[1..], (0..100).map(|number| format!("{number:02}")).collect::<Vec<_>>(), "{case}");
        assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_claim_or_ack_is_carried_out_once() {
    let fixture = Fixture::new("claim").await;
    let fixture = &fixture;
    for ack in [false, true] {
        for_each_loss(async |what, how| {
            let case = format!("{what:?} lost by {how:?}, ack: {ack}");
            let dir = unique_path("claim");
            let other = fixture.client().await;
            let producer = queue(&other, &dir).producer();
            producer.put("a").await.expect("put");
            producer.put("b").await.expect("put");
            let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
            let session = client.session_id();
            let consumer = queue(&client, &dir).consumer();
            let fault = (!ack).then(|| lose(&proxy, what, OpCode::Multi, how));
            let delivery = taken(&consumer).await;
            assert_eq!((delivery.item().as_str(), delivery.attempt()), ("a", 1), "{case}");
            let fault = fault.unwrap_or_else(|| lose(&proxy, what, OpCode::Multi, how));
            within("it is acked", SOON, delivery.ack()).await.expect("known");
            assert!(fault.has_fired(), "{case}");
            assert_eq!(drained(&consumer, 1).await, ["b"], "{case}");
            assert_eq!(client.session_id(), session, "{case}: the session survived");
            assert_eq!(fixture.observer.children(&dir).await, [""; 0], "{case}");
            assert_eq!(fixture.observer.children(&format!("{dir}-claims")).await, [""; 0], "{case}");
        })
        .await;
    }
}
