//! Items that are too large, or too many.

use futures::StreamExt;
use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::queue::{DistributedQueue, Error, RawBytes, Utf8};
use zookeeper_recipes::testing::Operation;
use zookeeper_recipes::{Acl, Client, ConnectionState, CreateMode, ErrorKind};

use super::fixture::{PATH, filled, names, queue, setup, taken};
use crate::fixture::log::Log;
use crate::fixture::{SOON, T, requests, within};

/// The largest item is put, claimed, returned and made a dead letter, and a larger one is refused.
async fn goes_through(one: &Client, two: &Client, path: &str) {
    let queue = DistributedQueue::builder(one, path, RawBytes).build().expect("a queue");
    let producer = queue.producer();
    let error = producer.put(vec![0; 1 << 20]).await.expect_err("too large");
    let Error::TooLarge { bytes, limit, .. } = error else { panic!("{error}") };
    assert_eq!((bytes, error.kind()), ((1 << 20) + 10, ErrorKind::InvalidArgument));
    let session = one.session_id();
    within("it is put", SOON, producer.put(vec![7; limit - 10])).await.expect("put");
    let consumer = DistributedQueue::builder(two, path, RawBytes).build().expect("a queue").consumer();
    let delivery = within("it comes", SOON, consumer.take()).await.expect("an item");
    assert_eq!(delivery.item().len(), limit - 10);
    delivery.nack().await.expect("put back");
    let delivery = within("it comes", SOON, consumer.take()).await.expect("an item");
    delivery.reject("x".repeat(5_000)).await.expect("buried");
    assert_eq!(queue.dead_letters().await.expect("an answer")[0].data.len(), limit);
    assert_eq!((queue.len().await.expect("an answer"), one.session_id()), (0, session));
}

#[tokio::test(start_paused = true)]
async fn an_item_of_about_a_megabyte_passes_through_everything_and_a_larger_one_is_refused_at_once() {
    let (_server, one, two) = setup().await;
    goes_through(&one, &two, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn so_it_does_on_a_long_path_and_with_many_entries_in_its_acl() {
    let (server, one, two) = setup().await;
    goes_through(&one, &two, &format!("/{}", "queue".repeat(500))).await;
    let acls = vec![Acl::anyone_all(); 400];
    let client =
        || async { Client::builder_for_testing(&server).acls(acls.clone()).connect().await.expect("a client") };
    goes_through(&client().await, &client().await, "/guarded").await;
}

#[tokio::test(start_paused = true)]
async fn puts_share_no_transaction_that_is_larger_than_the_servers_take() {
    let (server, _, _) = setup().await;
    // As with a jute.maxbuffer of 20 000: three of them, and no four.
    let small = Client::builder_for_testing(&server)
        .max_request_bytes(20_000)
        .session_timeout(T)
        .connect()
        .await
        .expect("a client");
    let producer = queue(&small).producer();
    producer.put("first").await.expect("put");
    server.clear_records();
    for _ in 0..12 {
        drop(producer.enqueue("x".repeat(4_500)).await.expect("enqueued"));
    }
    within("all is put", SOON, producer.flush()).await.expect("put");
    let sent = requests(&server).iter().filter(|operation| **operation == Operation::Multi).count();
    assert!((4..=6).contains(&sent), "{sent} transactions for 12 of which 3 fit into one");
    assert_eq!(names(&server).len(), 13);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_java_clients_cannot_list_takes_more_and_each_crossing_is_logged_once() {
    let (log, subscriber) = Log::new(LevelFilter::WARN);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let (limit, warnings) = (400, || log.lines("event=\"too_long_for_java\""));
    let (server, _, two) = setup().await;
    // As with a jute.maxbuffer of 8 000: 400 names.
    let small = Client::builder_for_testing(&server)
        .max_request_bytes(8_000)
        .session_timeout(T)
        .connect()
        .await
        .expect("a client");
    let clear = || {
        for name in names(&server) {
            server.delete_by_hand(&format!("{PATH}/{name}")).expect("it exists");
        }
    };
    for max_items in [None, Some(10_000)] {
        let queue = DistributedQueue::builder(&small, PATH, Utf8);
        let queue = max_items.map_or(queue.clone(), |most| queue.max_items(most)).build().expect("a queue");
        let (producer, before) = (queue.producer(), warnings().len());
        for crossing in 1..=2 {
            // An unbounded queue is counted once in 1 024 puts.
            for number in 0..2_100 {
                drop(producer.enqueue("x").await.expect("enqueued"));
                if number % 100 == 99 {
                    within("all is put", T, producer.flush()).await.expect("put");
                }
            }
            let warnings = warnings();
            assert_eq!((names(&server).len(), warnings.len() - before), (2_100, crossing), "{warnings:#?}");
            let last = &warnings[warnings.len() - 1];
            assert!(last.contains(&format!("path=\"{PATH}\"")) && last.contains(&format!("limit={limit}")), "{last}");
            clear();
            // It is seen to be short again.
            for _ in 0..1_100 {
                producer.put("x").await.expect("put");
                clear();
            }
        }
    }
    filled(&two, &["y"]).await;
    taken(&queue(&two).consumer()).await.ack().await.expect("acked");
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_is_used_up_is_an_error() {
    let (server, client, _) = setup().await;
    let producer = filled(&client, &[]).await;
    server.set_sequence(PATH, i32::MAX).expect("a counter");
    server.create_by_hand(&format!("{PATH}/queue-2147483647"), "", CreateMode::Persistent).expect("a new node");
    let error = within("it ends", SOON, producer.put("a")).await.expect_err("no more numbers");
    assert_eq!(error.kind(), ErrorKind::SequenceExhausted, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_serializer_that_refuses_is_told_and_nothing_is_put() {
    #[derive(Debug)]
    struct Picky;
    impl zookeeper_recipes::queue::Serializer for Picky {
        type Item = String;
        fn serialize(&self, item: &String) -> Result<Vec<u8>, zookeeper_recipes::queue::BoxError> {
            if item.is_empty() { Err("empty".into()) } else { Utf8.serialize(item) }
        }
        fn deserialize(&self, bytes: &[u8]) -> Result<String, zookeeper_recipes::queue::BoxError> {
            Utf8.deserialize(bytes)
        }
    }
    let (server, client, _) = setup().await;
    let producer = DistributedQueue::builder(&client, PATH, Picky).build().expect("a queue").producer();
    let error = producer.put_many(["a", ""]).await.expect_err("refused");
    assert!(matches!(&error, Error::Unserializable { why, .. } if why == "empty"), "{error}");
    assert_eq!(names(&server), [""; 0]);
}

/// Put by other clients, as our own put leaves room for the move. The servers would cut the connection, and with it
/// every recipe on the client.
#[tokio::test(start_paused = true)]
async fn an_item_too_large_to_be_moved_stays_and_is_told_of_and_cuts_no_connection() {
    for decodable in [true, false] {
        let (server, one, two) = setup().await;
        let mut data = vec![b'x'; 0xf_ffff - 300];
        if decodable {
            let length = u32::try_from(data.len() - 10).expect("a short one");
            data[..5].copy_from_slice(&[0, 1, 0, 1, 1]);
            data[5..9].copy_from_slice(&length.to_be_bytes());
            *data.last_mut().expect("a byte") = 2;
        }
        server.create_by_hand(&format!("{PATH}/queue-"), data, CreateMode::PersistentSequential).expect("a new node");
        filled(&one, &["good"]).await;
        let consumer = queue(&two).consumer();
        let states = two.connection_states();
        let good = taken(&consumer).await;
        assert_eq!(good.item(), "good", "the large one keeps no other back");
        good.ack().await.expect("acked");
        tokio::time::sleep(T * 6).await;
        assert_eq!(names(&server).len(), 1, "nothing is lost");
        let told = two.last_error().expect("the error is reported").to_string();
        assert!(told.contains("jute.maxbuffer"), "{told}");
        consumer.close().await;
        two.close().await.expect("closed");
        let states: Vec<_> = states.collect().await;
        assert!(states.iter().all(|state| *state != Ok(ConnectionState::Suspended)), "{states:?}");
    }
}
