//! The connection breaks after a request was handed over, and with it the answer is lost.

use zookeeper_recipes::testing::{Loss, Operation, TestingServer};

use super::scene::{
    CLAIMS, DEAD, PRODUCERS, acked, at_rest, builder, drained, filled, names, queue, scene, taken, texts,
};
use crate::in_memory::{T, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

fn lost_so_many(server: &TestingServer, count: u64, case: &str) {
    assert_eq!(server.lost_replies(), count, "{case}: the fault struck");
}

#[tokio::test(start_paused = true)]
async fn a_put_whose_answer_is_lost_is_in_the_queue_once() {
    for loss in LOSSES {
        let (server, client, _) = scene().await;
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
            let (server, client, _) = scene().await;
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

#[tokio::test(start_paused = true)]
async fn a_producer_whose_registration_or_look_is_not_answered_has_one_node() {
    for operation in [Operation::Create, Operation::Exists] {
        for loss in LOSSES {
            let (server, client, _) = scene().await;
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
async fn a_claim_whose_answer_is_lost_is_ours_and_blocks_nobody() {
    for operation in [Operation::Multi, Operation::GetData, Operation::List] {
        for loss in LOSSES {
            let (server, one, two) = scene().await;
            let _producer = filled(&two, &["a", "b"]).await;
            let consumer = builder(&one).prefetch(0).start().expect("a queue").consumer();
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
        let (server, one, two) = scene().await;
        let _producer = filled(&two, &["a", "b"]).await;
        let consumer = queue(&one).consumer();
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
        let (server, one, two) = scene().await;
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
        let (server, one, two) = scene().await;
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
        within("it is put back", T, queue.put_back(&letter)).await.expect("known");
        lost_so_many(&server, 2, "put back");
        assert_eq!((texts(&server), server.children(DEAD).len()), (vec!["a".to_owned()], 0), "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_given_back_or_dropped_without_an_answer_goes() {
    for loss in LOSSES {
        let (server, one, two) = scene().await;
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
