//! Several guards on one hold.

use zookeeper_recipes::mutex::Error;

use super::fixture::{acquired, line, line_has, mutex, released, setup};
use crate::fixture::{SOON, T, requests, still_pending, within};

#[tokio::test(start_paused = true)]
async fn the_lock_is_released_with_the_last_guard_in_whatever_order_they_are_dropped() {
    for last in 0..3 {
        let (server, one, two) = setup().await;
        let first = acquired(&mutex(&one)).await;
        server.clear_records();
        let second = first.reenter().expect("held");
        let third = second.reenter().expect("held");
        assert!(requests(&server).is_empty(), "to re-enter costs nothing");
        assert_eq!(first.fencing_token(), third.fencing_token());
        let two = mutex(&two);
        let mut waiting = Box::pin(two.acquire());
        still_pending("the lock is held", &mut waiting).await;
        let mut guards = vec![first, second, third];
        let last = guards.remove(last);
        let other = guards.pop().expect("two are left");
        released(other).await;
        drop(guards);
        still_pending("the lock is held", &mut waiting).await;
        assert!(last.is_held());
        released(last).await;
        released(within("it is its turn", SOON, waiting).await.expect("held")).await;
        assert!(line(&server).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_guard_may_be_dropped_as_well() {
    let (server, client, _) = setup().await;
    let first = acquired(&mutex(&client)).await;
    let second = first.reenter().expect("held");
    drop(first);
    assert!(second.is_held());
    drop(second);
    line_has(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_cannot_be_entered_again_and_all_its_guards_know() {
    let (server, client, _) = setup().await;
    let first = acquired(&mutex(&client)).await;
    let second = first.reenter().expect("held");
    server.expire_session(&client);
    within("it is told", T, second.lost()).await;
    assert!(!first.is_held() && !second.is_held());
    let error = first.reenter().expect_err("lost");
    assert!(matches!(error, Error::Lost { .. }) && error.is_lost(), "{error}");
}
