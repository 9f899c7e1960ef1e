//! A wait that ends, one way or another, leaves no watch.

use std::time::Duration;

use super::fixture::{PATH, barrier, is_set, setup};
use crate::fixture::{SOON, nothing_is_left, still_pending, timed};

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_of_time_leaves_no_watch() {
    let (server, one, two) = setup().await;
    barrier(&one).set().await.expect("set");
    let waiting = barrier(&two);
    for _ in 0..20 {
        let (took, gone) = timed(waiting.wait_timeout(SOON)).await;
        assert!(!gone.expect("an answer"), "the barrier is set");
        assert_eq!(took, SOON);
    }
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    assert!(is_set(&server));
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_is_no_answer_and_more_than_the_clock_can_tell_is_for_ever() {
    let (server, one, two) = setup().await;
    barrier(&one).set().await.expect("set");
    let waiting = barrier(&two);
    waiting.wait_timeout(Duration::ZERO).await.expect_err("there can be no reply yet");
    let mut for_ever = Box::pin(waiting.wait_timeout(Duration::MAX));
    still_pending("the barrier is set", &mut for_ever).await;
    barrier(&one).remove().await.expect("removed");
    assert!(for_ever.await.expect("an answer"));
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}
