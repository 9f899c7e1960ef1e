//! Consuming with a handler.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::sleep;
use zookeeper_recipes::queue::{ClaimHandle, Event};

use super::fixture::{at_rest, builder, filled, names, queue, setup};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn so_many_are_handled_at_a_time_and_each_is_acked() {
    let (server, one, two) = setup().await;
    let items: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let _producer = filled(&two, &items.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let consumer = queue(&one).consumer();
    let (now, most, seen) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let handler = |item: String, claim: ClaimHandle| {
        let (now, most, seen) = (&now, &most, &seen);
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            assert!(claim.is_held());
            sleep(Duration::from_millis(50)).await;
            seen.lock().expect("no panic").push(item);
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<(), std::io::Error>(())
        }
    };
    let work = consumer.consume(4, handler);
    let stop = async {
        server.until(|| names(&server).is_empty()).await;
        consumer.close().await;
    };
    let (worked, ()) = within("all are handled", T, futures::future::join(work, stop)).await;
    worked.expect("closed");
    assert_eq!(most.load(Ordering::SeqCst), 4);
    assert_eq!(seen.into_inner().expect("no panic"), items);
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_or_panics_comes_again_ever_later_and_is_a_dead_letter_in_the_end() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["good", "fails", "panics"]).await;
    let queue = builder(&one).max_deliveries(3).build().expect("a queue");
    let consumer = queue.consumer();
    let attempts: Arc<Mutex<BTreeMap<String, Vec<u32>>>> = Arc::default();
    let handler = |item: String, claim: ClaimHandle| {
        attempts.lock().expect("no panic").entry(item.clone()).or_default().push(claim.attempt());
        async move {
            match item.as_str() {
                "good" => Ok(()),
                "fails" => Err("the database is away"),
                _ => panic!("a bug"),
            }
        }
    };
    let work = consumer.consume(2, handler);
    let stop = async {
        server.until(|| names(&server).is_empty()).await;
        consumer.close().await;
    };
    let (worked, ()) = within("all are handled", T, futures::future::join(work, stop)).await;
    worked.expect("closed");
    let attempts = attempts.lock().expect("no panic").clone();
    assert_eq!(attempts["good"], [1]);
    assert_eq!((&attempts["fails"], &attempts["panics"]), (&vec![1, 2, 3], &vec![1, 2, 3]));
    let mut reasons: Vec<_> =
        queue.dead_letters().await.expect("an answer").into_iter().map(|letter| letter.reason).collect();
    reasons.sort();
    assert_eq!(reasons, ["the database is away", "the handler panicked: a bug"]);
}

/// An error that cannot even say what it is.
#[derive(Debug)]
struct Speechless;

impl std::fmt::Display for Speechless {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no words")
    }
}

impl std::error::Error for Speechless {}

#[tokio::test(start_paused = true)]
async fn an_error_that_panics_when_it_is_asked_is_a_failed_attempt_like_any_other() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["fails", "good"]).await;
    let queue = builder(&one).max_deliveries(2).build().expect("a queue");
    let (consumer, seen) = (queue.consumer(), Mutex::new(Vec::new()));
    let handler = |item: String, _: ClaimHandle| {
        let fails = item == "fails";
        seen.lock().expect("no panic").push(item);
        async move { if fails { Err(Speechless) } else { Ok(()) } }
    };
    let work = consumer.consume(1, handler);
    let stop = async {
        server.until(|| names(&server).is_empty()).await;
        consumer.close().await;
    };
    within("all are handled", T, futures::future::join(work, stop)).await.0.expect("closed");
    assert_eq!(*seen.lock().expect("no panic"), ["fails", "good", "fails"]);
    let letters = queue.dead_letters().await.expect("an answer");
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (letters[0].attempts, &*letters[0].reason),
        (2, "the handler's error panicked when its message was read: no words")
    );
}

#[tokio::test(start_paused = true)]
async fn items_put_as_one_are_handled_one_after_the_other_and_fail_together() {
    let (server, one, two) = setup().await;
    let producer = queue(&two).producer();
    producer.put_many(["a", "b", "c"]).await.expect("put");
    let consumer = queue(&one).consumer();
    let seen = Mutex::new(Vec::new());
    let handler = |item: String, claim: ClaimHandle| {
        let fails = item == "b" && claim.attempt() == 1;
        seen.lock().expect("no panic").push(item);
        async move { if fails { Err("not yet") } else { Ok(()) } }
    };
    let work = consumer.consume(4, handler);
    let stop = async {
        server.until(|| names(&server).is_empty()).await;
        consumer.close().await;
    };
    within("all are handled", T, futures::future::join(work, stop)).await.0.expect("closed");
    assert_eq!(*seen.lock().expect("no panic"), ["a", "b", "a", "b", "c"]);
}

/// Curator's testSafetyWithCrash.
#[tokio::test(start_paused = true)]
async fn an_item_that_one_consumer_fails_at_before_it_ends_is_handled_by_another_and_no_other_comes_twice() {
    let (server, one, two) = setup().await;
    let items: Vec<String> = (0..30).map(|number| format!("{number:02}")).collect();
    let _producer = filled(&two, &items.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (failing, working) = (queue(&one).consumer(), queue(&two).consumer());
    let (first, second) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let stop = tokio::sync::Notify::new();
    let fails_at_the_eleventh = |item: String, _: ClaimHandle| {
        let mut first = first.lock().expect("no panic");
        let crashes = first.len() == 10;
        if crashes {
            stop.notify_one();
        } else {
            first.push(item);
        }
        async move { if crashes { Err("it crashes") } else { Ok(()) } }
    };
    let crash = async {
        tokio::select! {
            ended = failing.consume(1, fails_at_the_eleventh) => panic!("{ended:?}"),
            // It closes in the middle of settling.
            () = stop.notified() => failing.close().await,
        }
    };
    within("one crashes", T, crash).await;
    let works = |item: String, _: ClaimHandle| {
        second.lock().expect("no panic").push(item);
        async { Ok::<(), std::io::Error>(()) }
    };
    let end = async {
        server.until(|| names(&server).is_empty()).await;
        working.close().await;
    };
    within("all are handled", T, futures::future::join(working.consume(4, works), end)).await.0.expect("closed");
    let (first, mut second) = (first.into_inner().expect("no panic"), second.into_inner().expect("no panic"));
    assert_eq!(second.pop().as_ref(), Some(&items[10]), "the failed one comes last, after its delay");
    assert_eq!((&first[..], &second[..]), (&items[..10], &items[11..]));
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_its_claim_is_lost() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a"]).await;
    let (consumer, dropped) = (queue(&one).consumer(), Arc::new(AtomicUsize::new(0)));
    let mut events = consumer.events();
    let handler = |_: String, claim: ClaimHandle| {
        let mark = Dropped(Arc::clone(&dropped));
        async move {
            let _mark = mark;
            if claim.name() == "queue-0000000000" {
                std::future::pending::<()>().await;
            }
            Ok::<(), std::io::Error>(())
        }
    };
    let mut work = Box::pin(consumer.consume(1, handler));
    crate::fixture::still_pending("it works", &mut work).await;
    server.expire_session(&one);
    crate::fixture::still_pending("it takes it again", &mut work).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let item = String::from("queue-0000000000");
    let interrupted = |attempt, claim_lost| Some(Event::Interrupted { item: item.clone(), attempt, claim_lost });
    assert_eq!(within("it is told", SOON, events.next()).await, interrupted(1, true));
    // Dropping all of it drops the handler, and the item is returned.
    drop(work);
    assert_eq!(within("it is told", SOON, events.next()).await, interrupted(2, false));
    drop(consumer);
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    within("it is returned", SOON, at_rest(&server, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn what_no_delivery_can_mend_is_a_dead_letter_at_once() {
    use zookeeper_recipes::RetryPolicy;
    use zookeeper_recipes::queue::Failure;
    for permanent in [true, false] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["bad"]).await;
        let twice = RetryPolicy::n_times(1, Duration::from_secs(1));
        let queue = builder(&one).retry_delay(twice).build().expect("a queue");
        let consumer = queue.consumer();
        let handler = |_: String, _: ClaimHandle| async move {
            let error: Box<dyn std::error::Error + Send + Sync> =
                if permanent { Failure::permanent("no such street").into() } else { "no such street".into() };
            Err::<(), _>(error)
        };
        let stop = async {
            server.until(|| names(&server).is_empty()).await;
            consumer.close().await;
        };
        within("handled", T, futures::future::join(consumer.consume(1, handler), stop)).await.0.expect("closed");
        let letters = queue.dead_letters().await.expect("letters");
        let expected = if permanent { 1 } else { 2 };
        assert_eq!((letters[0].attempts, &*letters[0].reason), (expected, "no such street"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_says_what_the_sources_of_the_error_say() {
    use zookeeper_recipes::queue::{BoxError, Failure};
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["bad"]).await;
    #[derive(Debug, thiserror::Error)]
    #[error("it was not shipped")]
    struct Outer(#[source] std::io::Error);
    let queue = builder(&one).build().expect("a queue");
    let consumer = queue.consumer();
    let handler = |_: String, _: ClaimHandle| async move {
        let full = std::io::Error::other("the disk is full");
        Err::<(), BoxError>(Failure::permanent(Outer(full)).into())
    };
    let worker = consumer.clone();
    // A handler that returns a boxed error can be spawned.
    let work = tokio::spawn(async move { worker.consume(1, handler).await });
    server.until(|| names(&server).is_empty()).await;
    consumer.close().await;
    within("handled", T, work).await.expect("no panic").expect("closed");
    let letters = queue.dead_letters().await.expect("letters");
    assert_eq!(&*letters[0].reason, "it was not shipped: the disk is full");
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_delays_that_panics_costs_a_second_and_nothing_else() {
    use zookeeper_recipes::RetryPolicy;
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["bad"]).await;
    let consumer = builder(&one).retry_delay(RetryPolicy::custom(|_, _| panic!("no idea"))).build().expect("a queue");
    let consumer = consumer.consumer();
    let (handled, began) = (AtomicUsize::new(0), tokio::time::Instant::now());
    let handler = |_: String, _: ClaimHandle| {
        let first = handled.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if first { Err("not today") } else { Ok(()) } }
    };
    let stop = async {
        server.until(|| names(&server).is_empty()).await;
        consumer.close().await;
    };
    within("handled", T, futures::future::join(consumer.consume(1, handler), stop)).await.0.expect("closed");
    assert_eq!(handled.load(Ordering::SeqCst), 2);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_concurrency_that_cannot_be_meant_is_refused() {
    let (_server, one, _) = setup().await;
    let consumer = builder(&one).build().expect("a queue").consumer();
    for concurrency in [0, usize::MAX] {
        let handler = |_: String, _: ClaimHandle| async { Ok::<(), std::io::Error>(()) };
        let error = consumer.consume(concurrency, handler).await.expect_err("refused");
        assert!(error.to_string().contains("from 1 to 100000 is allowed"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_handlers_finish_within_the_grace_period_and_nothing_more_is_claimed() {
    for (work, finishes) in [(Duration::from_secs(2), true), (Duration::from_secs(60), false)] {
        let (server, one, two) = setup().await;
        let _producer = filled(&two, &["a", "b", "c"]).await;
        let grace = Duration::from_secs(5);
        let consumer = builder(&one).grace_period(grace).build().expect("a queue").consumer();
        let handler = |_: String, _: ClaimHandle| async move {
            sleep(work).await;
            Ok::<(), std::io::Error>(())
        };
        let mut events = consumer.events();
        let shutdown = sleep(Duration::from_secs(1));
        let began = tokio::time::Instant::now();
        within("it ends", T * 6, consumer.consume_until(2, handler, shutdown)).await.expect("ended");
        let took = began.elapsed();
        assert!(if finishes { took < grace } else { took < grace + Duration::from_secs(2) }, "{took:?}");
        // Those that were cut short are returned, and reported.
        within("nothing is held", SOON, at_rest(&server, if finishes { 1 } else { 3 })).await;
        let told: Vec<_> = std::iter::from_fn(|| events.next().now_or_never().flatten()).collect();
        assert_eq!(told.len(), if finishes { 0 } else { 2 }, "{told:?}");
        let interrupted = |event: &_| matches!(event, Event::Interrupted { attempt: 1, claim_lost: false, .. });
        assert!(told.iter().all(interrupted), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ack_and_the_next_claim_do_not_wait_for_each_other() {
    let (server, one, two) = setup().await;
    let _producer = filled(&two, &["a", "b"]).await;
    let consumer = queue(&one).consumer();
    let handler = |item: String, _: ClaimHandle| {
        if item == "a" {
            // The answers come only in a second.
            server.delay(&one, Duration::from_secs(1));
        }
        async { Ok::<(), std::io::Error>(()) }
    };
    let began = tokio::time::Instant::now();
    let stop = async {
        server.until(|| names(&server).is_empty()).await;
        consumer.close().await;
    };
    within("handled", T, futures::future::join(consumer.consume(1, handler), stop)).await.0.expect("closed");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}: the ack and the claim, then the last ack");
}
