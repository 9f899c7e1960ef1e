//! At most once: an item has left the queue before it is handed out.

use zookeeper_recipes::queue::{ClaimHandle, Consumer, DeliveryMode, Utf8};
use zookeeper_recipes::testing::{Loss, Operation};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::scene::{CLAIMS, DEAD, PATH, acked, at_rest, builder, filled, names, scene, taken, texts};
use crate::in_memory::{T, polled, still_pending, within};

fn consumer(client: &zookeeper_recipes::Client) -> Consumer<Utf8> {
    builder(client).delivery_mode(DeliveryMode::AtMostOnce).start().expect("a queue").consumer()
}

#[tokio::test(start_paused = true)]
async fn an_item_is_gone_when_it_is_handed_out_and_only_what_is_asked_for_goes() {
    let (server, one, two) = scene().await;
    let _producer = filled(&two, &["a", "b", "c"]).await;
    let consumer = consumer(&one);
    let delivery = taken(&consumer).await;
    assert_eq!(texts(&server), ["b", "c"]);
    assert!(delivery.is_held());
    delivery.ack().await.expect("there is nothing to be done");
    acked(taken(&consumer).await).await;
    drop(taken(&consumer).await);
    at_rest(&server, 0).await;
    still_pending("all are gone", &mut Box::pin(consumer.take())).await;
}

#[tokio::test(start_paused = true)]
async fn an_item_comes_once_though_answers_are_lost() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        for skipped in 0..3 {
            let (server, one, two) = scene().await;
            let _producer = filled(&two, &["a"]).await;
            let consumer = consumer(&one);
            let mut taking = Box::pin(consumer.take());
            // The claim, or what takes it out.
            while server.count(&one, Operation::Multi) < skipped {
                assert!(polled(1, &mut taking).await.is_none(), "nothing was answered yet");
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                if server.count(&one, Operation::Multi) >= 2 {
                    break;
                }
            }
            server.lose_next_reply(&one, Operation::Multi, loss);
            let delivery = within("it comes", T, taking).await.expect("an item");
            assert_eq!(delivery.item(), "a", "{loss:?} {skipped}");
            drop(delivery);
            at_rest(&server, 0).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_take_dropped_at_any_poll_loses_nothing_while_there_is_another() {
    for times in 0..12 {
        let (server, one, two) = scene().await;
        let _producer = filled(&two, &["a", "b"]).await;
        let consumer = consumer(&one);
        let mut items = Vec::new();
        items.extend(polled(times, consumer.take()).await.map(|taken| taken.expect("an item").item().clone()));
        while items.len() < 2 {
            items.push(taken(&consumer).await.item().clone());
        }
        assert_eq!(items, ["a", "b"], "after {times} polls");
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_left_when_the_session_ended_is_lost_and_that_is_told() {
    let (server, one, two) = scene().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = consumer(&one);
    let mut taking = Box::pin(consumer.take());
    while server.children(CLAIMS).is_empty() {
        assert!(polled(1, &mut taking).await.is_none());
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    server.refuse(&one);
    if server.count(&one, Operation::Multi) < 2 {
        server.lose_next_reply(&one, Operation::Multi, Loss::Applied);
    } else {
        server.disconnect(&one);
    }
    let heal = async {
        tokio::time::sleep(T).await;
        server.heal();
    };
    let (taken, ()) = within("it ends", T * 3, futures::future::join(&mut taking, heal)).await;
    match taken {
        Err(error) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}"),
        Ok(delivery) => assert_eq!(delivery.item(), "a", "it never left"),
    }
    server.until(|| names(&server).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_handled_has_left_the_queue_and_becomes_a_dead_letter() {
    for loss in [None, Some(Loss::Applied), Some(Loss::NotApplied)] {
        let (server, one, two) = scene().await;
        let _producer = filled(&two, &["a", "b", "c"]).await;
        let queue = builder(&one).delivery_mode(DeliveryMode::AtMostOnce).start().expect("a queue");
        let consumer = queue.consumer();
        let (rejected, returned) = (taken(&consumer).await, taken(&consumer).await);
        if let Some(loss) = loss {
            server.lose_next_reply(&one, Operation::Create, loss);
        }
        within("rejected", T, rejected.reject("no such street")).await.expect("a letter");
        within("put back", T, returned.nack()).await.expect("a letter");
        let handle = |item: String, _: ClaimHandle| async move { Err::<(), _>(format!("cannot ship {item}")) };
        let consume = consumer.consume(1, handle);
        let closing = async {
            server.until(|| server.children(DEAD).len() == 3).await;
            consumer.close().await;
        };
        let (consumed, ()) = within("closed", T, futures::future::join(consume, closing)).await;
        consumed.expect("consumed");
        let letters = queue.dead_letters().await.expect("letters");
        let told: Vec<_> = letters.iter().map(|letter| (letter.attempts, letter.reason.as_str())).collect();
        assert_eq!(told, [(1, "no such street"), (1, "it was put back"), (1, "cannot ship c")], "{loss:?}");
        let items = letters[0].items(&Utf8).expect("text");
        assert_eq!(items, ["a"], "nothing of it is lost");
        at_rest(&server, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_could_not_leave_the_queue_comes_again() {
    for what in ["claim deleted", "forbidden", "has a child"] {
        let (server, one, two) = scene().await;
        let _producer = filled(&two, &["a", "b"]).await;
        let consumer = consumer(&one);
        drop(taken(&consumer).await);
        server.until(|| server.children(CLAIMS).len() == 1).await;
        let name = server.children(CLAIMS)[0].clone();
        let child = format!("{PATH}/{name}/child");
        match what {
            "claim deleted" => server.delete_by_hand(&format!("{CLAIMS}/{name}")).expect("it exists"),
            "forbidden" => server.deny(PATH),
            _ => drop(server.create_by_hand(&child, "", CreateMode::Persistent).expect("a new node")),
        }
        if what != "claim deleted" {
            within("it is told", T, consumer.take()).await.expect_err(what);
        }
        match what {
            "claim deleted" => {}
            "forbidden" => server.allow(PATH),
            _ => server.delete_by_hand(&child).expect("it exists"),
        }
        let delivery = loop {
            // A failure from before may be told once more.
            if let Ok(delivery) = within("it comes", T * 4, consumer.take()).await {
                break delivery;
            }
        };
        assert_eq!(delivery.item(), "b", "{what}");
        at_rest(&server, 0).await;
    }
}
