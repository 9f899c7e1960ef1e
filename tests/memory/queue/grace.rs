//! The end of `consume` by an error, errors that are outdated, and handlers on tasks of their own.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::queue::{ClaimHandle, Error, Spawned};

use super::fixture::{PATH, acked, at_rest, builder, drained, filled, queue, setup, taken};
use crate::fixture::{SOON, T, still_pending, within};

const GRACE: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn after_an_error_the_handlers_have_the_grace_period_and_no_longer() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = builder(&one).grace_period(GRACE).build().expect("a queue").consumer();
    let (begun, mut began) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |_: String, _: ClaimHandle| {
        begun.send(()).expect("the test listens");
        std::future::pending::<Result<(), std::io::Error>>()
    };
    let mut consuming = Box::pin(consumer.consume(2, handler));
    tokio::select! {
        ended = &mut consuming => panic!("{ended:?}"),
        begun = began.recv() => begun.expect("a handler"),
    }
    // The other slot waits. It has to list again after a loss, which is refused.
    server.deny(PATH);
    server.disconnect(&one);
    let ended = within("the grace period ends", T + GRACE, consuming).await;
    assert_eq!(ended.expect_err("no permission").kind(), ErrorKind::NoAuth);
    server.allow(PATH);
    at_rest(&server, 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_for_a_call_that_was_dropped_is_not_returned_hours_later() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let consumer = queue(&one).consumer();
    server.deny(PATH);
    assert!(consumer.take().now_or_never().is_none(), "it is dropped before the answer");
    tokio::time::sleep(SOON * 3_600).await;
    server.allow(PATH);
    acked(taken(&consumer).await).await;
    at_rest(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_spawned_handler_runs_on_a_task_of_its_own_and_its_outcomes_count_as_those_of_others() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "panics", "fails", "b"]).await;
    let queue = builder(&one).max_deliveries(1).build().expect("a queue");
    let tasks: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let (seen, consumer) = (Arc::clone(&tasks), queue.consumer());
    let handler = Spawned::new(move |item: String, _: ClaimHandle| {
        seen.lock().expect("no panic").insert(tokio::task::id().to_string());
        async move {
            assert_ne!(item, "panics", "as it has to");
            if item == "fails" { Err(std::io::Error::other("as it has to")) } else { Ok(()) }
        }
    });
    let consumed = consumer.clone();
    let consuming = tokio::spawn(async move {
        let own = tokio::task::id().to_string();
        (own, consumed.consume(2, handler).await)
    });
    at_rest(&server, 0).await;
    consumer.close().await;
    let (own, ended) = within("it ends", SOON, consuming).await.expect("no panic");
    ended.expect("consumed");
    let tasks = tasks.lock().expect("no panic").clone();
    assert!(!tasks.is_empty() && !tasks.contains(&own), "{tasks:?}");
    let reasons: Vec<String> =
        queue.dead_letters().await.expect("letters").into_iter().map(|letter| letter.reason).collect();
    assert!(reasons[0].contains("the handler panicked") && reasons[1] == "as it has to", "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn a_spawned_handler_ends_when_its_claim_is_lost_or_the_call_is_dropped() {
    struct Ends(tokio::sync::mpsc::UnboundedSender<()>);
    impl Drop for Ends {
        fn drop(&mut self) {
            // The test may be over.
            let _ = self.0.send(());
        }
    }
    for loses in [true, false] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a"]).await;
        let consumer = queue(&one).consumer();
        let (told, mut ended) = tokio::sync::mpsc::unbounded_channel();
        let begun = Arc::new(tokio::sync::Notify::new());
        let runs = Arc::clone(&begun);
        let handler = Spawned::new(move |_: String, _: ClaimHandle| {
            let ends = Ends(told.clone());
            runs.notify_one();
            async move {
                let _ends = ends;
                std::future::pending::<Result<(), std::io::Error>>().await
            }
        });
        let mut consuming = Box::pin(consumer.consume(1, handler));
        tokio::select! {
            ended = &mut consuming => panic!("{ended:?}"),
            () = begun.notified() => {}
        }
        still_pending("it runs", &mut Box::pin(ended.recv())).await;
        if loses {
            server.disconnect(&one);
            tokio::select! {
                ended = &mut consuming => panic!("{ended:?}"),
                told = within("it ends", T, ended.recv()) => told.expect("a handler"),
            }
        }
        drop(consuming);
        if !loses {
            within("it ends", SOON, ended.recv()).await.expect("a handler");
        }
        at_rest(&server, 1).await;
        assert_eq!(drained(&consumer, 1).await, ["a"]);
        assert!(!matches!(consumer.take().now_or_never(), Some(Err(Error::Closed { .. }))));
    }
}
