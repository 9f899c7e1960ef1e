//! The connection breaks after a request was handed over, and with it the answer is lost.

use std::time::Duration;

use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{
    CLAIMS, DEAD, PATH, PRODUCERS, acked, at_rest, builder, drained, filled, make_directories, names, queue, setup,
    taken, texts,
};
use crate::fixture::{T, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

fn lost_so_many(server: &TestingServer, count: u64, case: &str) {
    assert_eq!(server.lost_replies(), count, "{case}: the fault struck");
}

#[tokio::test(start_paused = true)]
async fn a_put_whose_answer_is_lost_is_in_the_queue_once() {
    for loss in LOSSES {
        let (server, client, _) = setup().await;
        let producer = filled(&client, &["before"]).await;
        server.lose_next_reply(&client, Operation::Multi, loss);
        within("it is put", T, producer.put("a")).await.expect("known");
        lost_so_many(&server, 1, "put");
        within("it is put", T, producer.put("after")).await.expect("known");
        assert_eq!(texts(&server), ["before", "a", "after"], "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_puts_under_way_keep_their_order_and_number_whatever_is_lost() {
    for loss in LOSSES {
        for nth in 0..4 {
            let (server, client, _) = setup().await;
            let producer = filled(&client, &["start"]).await;
            let mut expected = vec!["start".to_owned()];
            for number in 0..300 {
                let item = format!("{number:03}");
                drop(producer.enqueue(item.clone()).await.expect("enqueued"));
                expected.push(item);
                if number == nth * 80 {
                    server.lose_next_reply(&client, Operation::Multi, loss);
                    // Whatever was enqueued so far is under way.
                    tokio::task::yield_now().await;
                }
            }
            within("all is put", T, producer.flush()).await.expect("known");
            lost_so_many(&server, 1, "puts");
            assert_eq!(texts(&server), expected, "{loss:?}, {nth}");
        }
    }
}

/// With a latency, so that there is time to act between a look and what follows it.
async fn slow_setup() -> (TestingServer, Client) {
    let server = TestingServer::builder().latency(Duration::from_millis(20)..=Duration::from_millis(20)).start();
    let client = server.client().await.expect("a client");
    make_directories(&server);
    (server, client)
}

fn producers_node(server: &TestingServer) -> String {
    format!("{PRODUCERS}/{}", server.children(PRODUCERS)[0])
}

/// Carries out the second transaction of a producer, which puts one item, as servers do.
fn carry_out_the_second(server: &TestingServer, node: &str, item: &str) {
    let mut data = vec![0, 1, 0, 1, 1];
    data.extend(u32::try_from(item.len()).expect("a short one").to_be_bytes());
    data.extend(item.as_bytes());
    data.push(2);
    server.create_by_hand(&format!("{PATH}/queue-"), data, CreateMode::PersistentSequential).expect("a new node");
    server.set_data_by_hand(node, "2 2").expect("it exists");
}

/// The first copy of a transaction is carried out when the second one is on its way, and puts have come between them.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_carried_out_late_confirms_what_it_has_put_and_no_more() {
    let (server, client) = slow_setup().await;
    let producer = filled(&client, &["first"]).await;
    let node = producers_node(&server);
    assert_eq!(server.get(&node).expect("it exists"), b"1 1");
    server.lose_next_reply(&client, Operation::Multi, Loss::NotApplied);
    let a = producer.enqueue("a").await.expect("enqueued");
    server.until(|| server.lost_replies() == 1).await;
    let b = producer.enqueue("b").await.expect("enqueued");
    // The producer sees that nothing was carried out, and the second copy is lost too.
    server.until(|| server.count(&client, Operation::GetData) == 1).await;
    server.lose_next_reply(&client, Operation::Multi, Loss::NotApplied);
    server.until(|| server.lost_replies() == 2).await;
    carry_out_the_second(&server, &node, "a");
    within("it is confirmed", T, a).await.expect("put");
    within("it is put", T, b).await.expect("put");
    assert_eq!(texts(&server), ["first", "a", "b"]);
    assert_eq!(server.get(&node).expect("it exists"), b"3 3");
}

#[tokio::test(start_paused = true)]
async fn a_number_that_was_used_by_a_transaction_of_another_id_confirms_nothing() {
    let (server, client) = slow_setup().await;
    let producer = filled(&client, &["first"]).await;
    let node = producers_node(&server);
    server.lose_next_reply(&client, Operation::Multi, Loss::NotApplied);
    let a = producer.enqueue("a").await.expect("enqueued");
    server.until(|| server.lost_replies() == 1).await;
    let b = producer.enqueue("b").await.expect("enqueued");
    server.set_data_by_hand(&node, "2 7").expect("it exists");
    let error = within("it is told", T, a).await.expect_err("the outcome is unknown");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    within("it was never sent before", T, b).await.expect("put");
    assert_eq!(texts(&server), ["first", "b"]);
    assert_ne!(producers_node(&server), node);
}

/// Without the refused item it would be another transaction with the same number.
#[tokio::test(start_paused = true)]
async fn a_transaction_in_doubt_whose_second_copy_is_refused_stays_in_doubt() {
    let (server, client) = slow_setup().await;
    let producer = filled(&client, &["first"]).await;
    let node = producers_node(&server);
    server.lose_next_reply(&client, Operation::Multi, Loss::NotApplied);
    let (a, b) = (producer.enqueue("a").await.expect("enqueued"), producer.enqueue("b").await.expect("enqueued"));
    server.until(|| server.lost_replies() == 1).await;
    server.deny(PATH);
    for put in [a, b] {
        let error = within("it is told", T, put).await.expect_err("the outcome is unknown");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    }
    server.allow(PATH);
    within("it is put", T, producer.put("c")).await.expect("put");
    assert_eq!(texts(&server), ["first", "c"]);
    assert_ne!(producers_node(&server), node, "a late copy finds its node no more");
}

#[tokio::test(start_paused = true)]
async fn a_producer_whose_registration_or_look_is_not_answered_has_one_node() {
    for operation in [Operation::Create, Operation::Exists] {
        for loss in LOSSES {
            let (server, client, _) = setup().await;
            server.lose_next_reply(&client, operation, loss);
            let producer = queue(&client).producer();
            within("it is put", T, producer.put("a")).await.expect("known");
            lost_so_many(&server, 1, "registration");
            assert_eq!((texts(&server).len(), server.children(PRODUCERS).len()), (1, 1), "{operation:?} {loss:?}");
            within("it closes", T, producer.close()).await.expect("put");
            assert_eq!(server.children(PRODUCERS), [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_is_lost_is_ours_and_blocks_no_other_consumer() {
    for operation in [Operation::Multi, Operation::GetData, Operation::List] {
        for loss in LOSSES {
            let (server, one, two) = setup().await;
            let _producer = filled(&two, &["a", "b"]).await;
            let consumer = builder(&one).prefetch(0).build().expect("a queue").consumer();
            server.lose_next_reply(&one, operation, loss);
            let delivery = within("it comes", T, consumer.take()).await.expect("an item");
            lost_so_many(&server, 1, "claim");
            assert_eq!((delivery.item().as_str(), delivery.attempt()), ("a", 1), "{operation:?} {loss:?}");
            assert_eq!(server.children(CLAIMS), [delivery.name()]);
            acked(delivery).await;
            assert_eq!(drained(&consumer, 1).await, ["b"]);
            at_rest(&server, 0).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_ack_whose_answer_is_lost_is_done_once_and_said_to_be() {
    for loss in LOSSES {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a", "b"]).await;
        let consumer = builder(&one).prefetch(1).build().expect("a queue").consumer();
        let delivery = taken(&consumer).await;
        // The second one is claimed ahead.
        server.until(|| server.children(CLAIMS).len() == 2).await;
        server.lose_next_reply(&one, Operation::Multi, loss);
        within("it is acked", T, delivery.ack()).await.expect("known");
        lost_so_many(&server, 1, "ack");
        assert_eq!(texts(&server), ["b"], "{loss:?}");
        assert_eq!(drained(&consumer, 1).await, ["b"]);
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_nack_whose_answer_is_lost_counts_once() {
    for loss in LOSSES {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let consumer = queue(&one).consumer();
        let delivery = taken(&consumer).await;
        server.lose_next_reply(&one, Operation::Multi, loss);
        within("it is put back", T, delivery.nack()).await.expect("known");
        lost_so_many(&server, 1, "nack");
        let again = taken(&consumer).await;
        assert_eq!(again.attempt(), 2, "{loss:?}");
        acked(again).await;
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_whose_answer_is_lost_is_written_once() {
    for loss in LOSSES {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let queue = queue(&one);
        let consumer = queue.consumer();
        let delivery = taken(&consumer).await;
        server.lose_next_reply(&one, Operation::Multi, loss);
        within("it is buried", T, delivery.reject("for good")).await.expect("known");
        lost_so_many(&server, 1, "reject");
        assert_eq!((names(&server).len(), server.children(DEAD).len()), (0, 1), "{loss:?}");
        // And back, through another loss.
        let letter = queue.dead_letters().await.expect("an answer").remove(0);
        server.lose_next_reply(&one, Operation::Multi, loss);
        within("it is retried", T, queue.retry(&letter)).await.expect("known");
        lost_so_many(&server, 2, "put back");
        assert_eq!((texts(&server), server.children(DEAD).len()), (vec!["a".to_owned()], 0), "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_given_back_or_dropped_without_an_answer_goes() {
    for loss in LOSSES {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let consumer = queue(&one).consumer();
        let delivery = taken(&consumer).await;
        server.lose_next_reply(&one, Operation::Multi, loss);
        drop(delivery);
        drop(consumer);
        at_rest(&server, 1).await;
        lost_so_many(&server, 1, "drop");
    }
}
