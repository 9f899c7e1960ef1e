//! Consumers in processes of their own: one is killed with claims, one is stopped for longer than its session.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::queue::{DistributedQueue, Utf8};
use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::{Fixture, SOON, drained, queue, taken};
use crate::fixture::{builder, connect};
use crate::support::elsewhere::{Elsewhere, ordered, say};
use crate::support::within;

const SESSION: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_is_killed_with_claims_frees_them_within_its_session_and_without_any_put() {
    if let Some([server, path]) = ordered() {
        let client = connect(builder(&server, SESSION)).await;
        let queue = DistributedQueue::builder(&client, &path, Utf8).prefetch(7).build().expect("a queue");
        let consumer = queue.consumer();
        let held = join_all((0..3).map(|_| taken(&consumer))).await;
        say("has three");
        held[0].lost().await;
        return say("lost");
    }
    let fixture = Fixture::new("killed").await;
    let client = fixture.client().await;
    let items: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let producer = queue(&client, &fixture.path).producer();
    join_all(items.iter().map(|item| producer.put(item.clone()))).await.into_iter().for_each(|put| put.expect("put"));
    let test = concat!(
        module_path!(),
        "::a_consumer_that_is_killed_with_claims_frees_them_within_its_session_and_without_any_put"
    );
    let mut other = Elsewhere::start(test, &[&fixture.server.connect_string(), &fixture.path]);
    assert_eq!(other.word().await, "has three");
    // It has claimed every item, some of them ahead: a consumer that waits now gets one only when it ends.
    let claims = format!("{}-claims", fixture.path);
    fixture.observer.wait_for_children(&claims, 10).await;
    let consumer = queue(&client, &fixture.path).consumer();
    let waiting = tokio::spawn(async move { drained(&consumer, 10).await });
    tokio::time::sleep(crate::fixture::A_WHILE).await;
    assert_eq!(fixture.observer.children(&claims).await.len(), 10);
    assert_eq!(other.kill().await, [""; 0], "it has lost nothing before");
    let mut got = within("another gets them", SOON, waiting).await.expect("no panic");
    got.sort();
    assert_eq!(got, items, "each once");
    assert!(fixture.nodes().await.is_empty());
    fixture.observer.wait_for_children(&claims, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_was_stopped_wakes_without_its_claim_and_neither_its_ack_nor_its_fenced_write_is_accepted() {
    if let Some([server, path]) = ordered() {
        return wake_late(&server, &path).await;
    }
    let fixture = Fixture::new("stopped").await;
    let client = fixture.client().await;
    fixture.observer.create(&resource(&fixture.path), b"").await;
    queue(&client, &fixture.path).producer().put("a").await.expect("put");
    let test = concat!(
        module_path!(),
        "::a_consumer_that_was_stopped_wakes_without_its_claim_and_neither_its_ack_nor_its_fenced_write_is_accepted"
    );
    let mut stopped = Elsewhere::start(test, &[&fixture.server.connect_string(), &fixture.path]);
    assert_eq!(stopped.word().await, "held: true");
    stopped.stop().await;
    // Its session is over when another has the item.
    let next = taken(&queue(&client, &fixture.path).consumer()).await;
    assert_eq!((next.item().as_str(), next.attempt()), ("a", 2), "the one that ended with its session counts");
    stopped.tell("go on").await;
    stopped.go_on();
    assert_eq!(stopped.word().await, "held: false");
    let (fenced, ack) = (stopped.word().await, stopped.word().await);
    assert!(["fenced: SessionLost", "fenced: Fenced"].contains(&&*fenced), "{fenced}");
    // If it was handed over to a connection that the server had ended, the outcome is unknown.
    assert!(["ack: SessionLost", "ack: OutcomeUnknown"].contains(&&*ack), "{ack}");
    assert!(next.is_held(), "the other's claim is not touched");
    next.ack().await.expect("acked");
    assert_eq!(fixture.observer.data(&resource(&fixture.path)).await.as_deref(), Some(&b""[..]));
    assert!(fixture.nodes().await.is_empty());
}

fn resource(path: &str) -> String {
    format!("{path}-resource")
}

async fn wake_late(server: &str, path: &str) {
    let client = connect(builder(server, SESSION).error_policy(ErrorPolicy::Session)).await;
    let delivery = taken(&queue(&client, path).consumer()).await;
    say(format_args!("held: {}", delivery.is_held()));
    // This thread, so that nothing of the library comes first.
    let mut order = String::new();
    std::io::stdin().read_line(&mut order).expect("an order");
    say(format_args!("held: {}", delivery.is_held()));
    let written = client.transaction().check(&delivery.fence()).set_data(&resource(path), "late", None).commit().await;
    say(format_args!("fenced: {}", kind(written.map(drop).map_err(|error| error.kind()))));
    let acked = within("an answer", SOON, delivery.ack()).await;
    say(format_args!("ack: {}", kind(acked.map(drop).map_err(|error| error.kind()))));
}

fn kind(outcome: Result<(), ErrorKind>) -> String {
    outcome.map_or_else(|kind| format!("{kind:?}"), |()| "accepted".to_owned())
}
