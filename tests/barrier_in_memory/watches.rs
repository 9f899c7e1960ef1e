//! A wait that ends, one way or another, leaves no watch.

use std::time::Duration;

use super::scene::{PATH, barrier, scene, stands};
use crate::in_memory::{SOON, T, nothing_is_left, polled, still_pending, timed};

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_of_time_leaves_no_watch() {
    let (server, one, two) = scene().await;
    barrier(&one).set().await.expect("set");
    let waiting = barrier(&two);
    for _ in 0..20 {
        let (took, gone) = timed(waiting.wait_timeout(SOON)).await;
        assert!(!gone.expect("an answer"), "it stands");
        assert_eq!(took, SOON);
    }
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    assert!(stands(&server));
}

#[tokio::test(start_paused = true)]
async fn a_wait_dropped_at_any_poll_leaves_no_watch() {
    for times in 0..10 {
        let (server, one, two) = scene().await;
        barrier(&one).set().await.expect("set");
        let waiting = barrier(&two);
        assert!(polled(times, waiting.wait()).await.is_none());
        assert!(polled(times, waiting.wait_timeout(T)).await.is_none_or(|gone| gone.is_ok_and(|gone| !gone)));
        nothing_is_left(&server, PATH, 0, 0, &format!("after {times} polls")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_is_no_answer_and_more_than_the_clock_can_tell_is_for_ever() {
    let (server, one, two) = scene().await;
    barrier(&one).set().await.expect("set");
    let waiting = barrier(&two);
    waiting.wait_timeout(Duration::ZERO).await.expect_err("nobody can have answered");
    let mut for_ever = Box::pin(waiting.wait_timeout(Duration::MAX));
    still_pending("it stands", &mut for_ever).await;
    barrier(&one).remove().await.expect("removed");
    assert!(for_ever.await.expect("an answer"));
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn a_set_or_remove_dropped_at_any_poll_is_done_or_not_and_can_be_repeated() {
    for times in 0..8 {
        let (server, one, two) = scene().await;
        let setter = barrier(&one);
        let _ = polled(times, setter.set()).await;
        setter.set().await.expect("set");
        assert!(stands(&server));
        let _ = polled(times, setter.remove()).await;
        setter.remove().await.expect("removed");
        assert!(!stands(&server));
        barrier(&two).wait().await.expect("there is none");
    }
}
