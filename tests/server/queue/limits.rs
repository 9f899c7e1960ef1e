//! The limits of real servers.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::queue::{DistributedQueue, Error, RawBytes};

use super::fixture::{Fixture, SOON, drained, queue, taken};
use crate::fixture::{States, builder, connect};
use crate::support::{Observer, ZooKeeper, unique_path, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_of_about_a_megabyte_passes_through_everything_and_a_larger_one_is_refused_at_once() {
    let fixture = Fixture::new("large").await;
    let client = fixture.client().await;
    let session = client.session_id();
    let queue = DistributedQueue::builder(&client, &fixture.path, RawBytes).build().expect("a queue");
    let producer = queue.producer();
    let error = producer.put(vec![0; 1 << 20]).await.expect_err("too large");
    let Error::TooLarge { limit, .. } = error else { panic!("{error}") };
    within("it is put", SOON, producer.put(vec![7; limit - 10])).await.expect("put");
    let consumer = queue.consumer();
    let delivery = within("it comes", SOON, consumer.take()).await.expect("an item");
    assert_eq!(delivery.item().len(), limit - 10);
    delivery.nack().await.expect("put back");
    let delivery = within("it comes again", SOON, consumer.take()).await.expect("an item");
    assert_eq!((delivery.item().len(), delivery.attempt()), (limit - 10, 2));
    delivery.reject("x".repeat(5_000)).await.expect("buried");
    assert_eq!(queue.dead_letters().await.expect("an answer")[0].data.len(), limit);
    // More than fit into one transaction.
    let others = join_all((0..5).map(|_| producer.put(vec![8; 200_000])));
    within("they are put", SOON, others).await.into_iter().for_each(|put| put.expect("put"));
    for _ in 0..5 {
        within("it comes", SOON, consumer.take()).await.expect("an item").ack().await.expect("acked");
    }
    assert_eq!(client.session_id(), session, "no request was too large for the server");
}

/// A server that takes little, and a client that was told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_that_together_are_more_than_the_server_takes_and_lists_that_are_almost_do_no_harm() {
    const BYTES: usize = 20_000;
    let server = ZooKeeper::builder().jvm_flag(format!("-Djute.maxbuffer={BYTES}")).start().await;
    let path = unique_path("little");
    let client = connect(builder(&server.connect_string(), Duration::from_secs(10)).max_request_bytes(BYTES)).await;
    let session = client.session_id();
    let queue = queue(&client, &path);
    let (producer, consumer) = (queue.producer(), queue.consumer());
    let puts = join_all((0..50).map(|_| producer.put("x".repeat(4_000))));
    within("they are put", SOON, puts).await.into_iter().for_each(|put| put.expect("put"));
    drained(&consumer, 50).await;
    // More than Java clients could list.
    let items = BYTES / 20 + 50;
    let puts = join_all((0..items).map(|_| producer.put("x")));
    within("they are put", SOON, puts).await.into_iter().for_each(|put| put.expect("put"));
    drained(&consumer, items).await;
    assert_eq!(client.session_id(), session, "no request was too large for the server");
    let observer = Observer::connect(&server.connect_string()).await;
    assert!(observer.children(&path).await.is_empty());
}

/// A real server's own errors: the node does not exist, exists, has another version, or the operation is not allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_do_to_the_nodes_by_hand_is_an_error_and_not_the_end() {
    let fixture = Fixture::new("by-hand").await;
    let client = fixture.client().await;
    let queue = queue(&client, &fixture.path);
    let (producer, consumer) = (queue.producer(), queue.consumer());
    for item in ["a", "b", "c"] {
        producer.put(item).await.expect("put");
    }
    let (a, b) = (taken(&consumer).await, taken(&consumer).await);
    fixture.observer.delete(&format!("{}-claims/{}", fixture.path, a.name())).await;
    fixture.observer.delete(&format!("{}/{}", fixture.path, b.name())).await;
    assert!(matches!(a.ack().await, Err(Error::Lost { .. })), "its claim is gone");
    assert!(matches!(b.ack().await, Err(Error::Lost { .. })), "the item is gone");
    let mut again = drained(&consumer, 2).await;
    again.sort();
    assert_eq!(again, ["a", "c"]);
    for name in fixture.observer.children(&format!("{}-producers", fixture.path)).await {
        fixture.observer.delete(&format!("{}-producers/{name}", fixture.path)).await;
    }
    producer.put("d").await.expect("put with another number");
    assert_eq!(drained(&consumer, 1).await, ["d"]);
    assert!(fixture.observer.children(&format!("{}-claims", fixture.path)).await.is_empty());
    let forbidden = unique_path("forbidden");
    fixture.observer.create_forbidden(&forbidden).await;
    let queue = super::fixture::queue(&client, &forbidden);
    let mut states = States::of(&client);
    let (put, take) = (queue.producer().put("a").await, within("an answer", SOON, queue.consumer().take()).await);
    for error in [put.expect_err("forbidden"), take.map(drop).expect_err("forbidden")] {
        assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    }
    let nothing =
        tokio::time::timeout(crate::fixture::A_WHILE, states.wait_for(zookeeper_recipes::ConnectionState::Lost));
    assert!(nothing.await.is_err(), "the session has survived");
}
