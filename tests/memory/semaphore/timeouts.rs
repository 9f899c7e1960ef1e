//! One deadline covers everything, and its end tells the truth.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::testing::Operation;

use super::fixture::{acquired, nodes, nodes_are, released, semaphore, setup};
use crate::fixture::{SOON, requests, still_pending, timed, within};

const WAIT: Duration = Duration::from_secs(4);

#[tokio::test(start_paused = true)]
async fn none_means_that_nothing_is_left_and_comes_before_the_deadline() {
    let (server, [one, two, three]) = setup().await;
    let held = acquired(&semaphore(&one, 3), 2).await;
    let two = semaphore(&two, 3);
    let (took, tried) = timed(two.acquire_timeout(2, WAIT)).await;
    assert!(tried.expect("it is known").is_none());
    assert!(took <= WAIT && took >= WAIT * 7 / 8, "{took:?}");
    // Not later: now.
    assert_eq!(nodes(&server), (0, 2));
    let three = semaphore(&three, 3);
    let mut first = Box::pin(three.acquire(2));
    still_pending("one is free", &mut first).await;
    let (_, tried) = timed(two.acquire_timeout(1, WAIT)).await;
    assert!(tried.expect("it is known").is_none(), "another is ahead");
    assert_eq!(nodes(&server), (1, 4));
    released(held).await;
    released(within("they are free", SOON, first).await.expect("held")).await;
    tokio::time::sleep(SOON).await;
    assert_eq!((nodes(&server), server.watches()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn permits_that_come_free_in_time_are_had() {
    let (server, [one, two]) = setup().await;
    let held = acquired(&semaphore(&one, 2), 2).await;
    let waiter = semaphore(&two, 2);
    let waiting = server.spawn(&two, async move { waiter.acquire_timeout(2, WAIT).await });
    tokio::time::sleep(WAIT / 2).await;
    released(held).await;
    assert!(waiting.await.expect("no panic").expect("known").expect("held").is_held());
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_sends_nothing_and_more_than_the_clock_can_tell_is_for_ever() {
    let (server, [one, two]) = setup().await;
    let (one, two) = (semaphore(&one, 1), semaphore(&two, 1));
    server.clear_records();
    let no_time = one.acquire_timeout(1, Duration::ZERO).await.expect_err("no server was asked");
    assert_eq!(no_time.kind(), ErrorKind::TimedOut);
    assert_eq!(requests(&server), [Operation::Create; 0]);
    let held = one.acquire_timeout(1, Duration::MAX).await.expect("free").expect("held");
    let mut for_ever = Box::pin(two.acquire_timeout(1, Duration::MAX));
    still_pending("held", &mut for_ever).await;
    drop(held);
    assert!(for_ever.await.expect("free").is_some());
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_the_error_says_so_and_nothing_is_left() {
    let (server, [one, two]) = setup().await;
    server.refuse(&one);
    server.disconnect(&one);
    server.until(|| !one.connection_state().is_connected()).await;
    let error = semaphore(&one, 1).acquire_timeout(1, WAIT).await.expect_err("no server could be asked");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    server.heal();
    // Nothing of the one that waits for permits can be asked either.
    let held = acquired(&semaphore(&two, 1), 1).await;
    let semaphore = semaphore(&one, 1);
    server.until(|| one.connection_state().is_connected()).await;
    let mut waiting = Box::pin(semaphore.acquire_timeout(1, WAIT));
    still_pending("it is taken", &mut waiting).await;
    server.black_hole(&one);
    let (took, tried) = timed(waiting).await;
    assert_eq!(tried.expect_err("it is not known").kind(), ErrorKind::OutcomeUnknown);
    assert!(took <= WAIT, "{took:?}");
    server.heal();
    nodes_are(&server, (0, 1)).await;
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn one_that_tries_while_another_passes_through_waits_for_it() {
    let (server, [one, two]) = setup().await;
    let (one_semaphore, two_semaphore) = (semaphore(&one, 2), semaphore(&two, 2));
    // The answers to the one ahead are slow, so it is still in the line.
    server.delay(&one, Duration::from_millis(50));
    let passing = server.spawn(&one, async move { one_semaphore.acquire(1).await.expect("held") });
    server.until(|| nodes(&server).0 == 1).await;
    let tried = within("it passes through", SOON, two_semaphore.try_acquire(1)).await.expect("an answer");
    assert!(tried.expect("there are enough for both").is_held());
    assert!(passing.await.expect("no panic").is_held());
}

#[tokio::test(start_paused = true)]
async fn one_that_tries_learns_that_the_one_ahead_takes_the_rest_and_waits() {
    let (server, [one, two, three]) = setup().await;
    let _held = acquired(&semaphore(&one, 3), 1).await;
    nodes_are(&server, (0, 1)).await;
    // The one ahead is slow: it is in the line, and has no leases yet.
    server.delay(&two, Duration::from_millis(200));
    let greedy = semaphore(&two, 3);
    let _waiting = server.spawn(&two, async move { greedy.acquire(3).await });
    server.until(|| nodes(&server).0 == 1).await;
    let three = semaphore(&three, 3);
    let (took, tried) = timed(three.try_acquire(1)).await;
    assert!(tried.expect("an answer").is_none(), "the one ahead takes all that there are");
    assert!(took < SOON, "it has waited for {took:?}");
    nodes_are(&server, (1, 4)).await;
}
