//! The number of permits is that of a node, which an operator changes.

use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{COUNT, acquired, counted, make_count, nodes, nodes_are, released, set_count, setup};
use crate::fixture::{SOON, T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_when_the_number_is_raised() {
    let (server, [one, two]) = setup().await;
    make_count(&server, 1);
    let held = acquired(&counted(&one), 1).await;
    let two = counted(&two);
    let mut waiting = Box::pin(two.acquire(2));
    still_pending("it is taken", &mut waiting).await;
    set_count(&server, 2);
    still_pending("one is free", &mut waiting).await;
    set_count(&server, 3);
    let more = within("two are free", SOON, waiting).await.expect("held");
    assert!(held.is_held() && more.is_held());
    tokio::time::sleep(SOON).await;
    assert_eq!((nodes(&server), server.watches()), ((0, 3), 0));
}

#[tokio::test(start_paused = true)]
async fn none_is_revoked_and_none_enters_when_the_number_is_lowered_below_what_is_taken() {
    let (server, [one, two]) = setup().await;
    make_count(&server, 3);
    let (one, two) = (counted(&one), counted(&two));
    let mut guards = vec![acquired(&one, 1).await, acquired(&one, 1).await, acquired(&one, 1).await];
    set_count(&server, 1);
    assert!(guards.iter().all(|guard| guard.is_held()));
    let mut waiting = Box::pin(two.acquire(1));
    still_pending("three of one are taken", &mut waiting).await;
    released(guards.pop().expect("three")).await;
    still_pending("two of one are taken", &mut waiting).await;
    released(guards.pop().expect("two")).await;
    still_pending("one of one is taken", &mut waiting).await;
    released(guards.pop().expect("one")).await;
    let guard = within("it is free", SOON, waiting).await.expect("held");
    assert!(one.try_acquire(1).await.expect("an answer").is_none());
    released(guard).await;
}

#[tokio::test(start_paused = true)]
async fn none_enters_while_the_number_is_zero_or_negative() {
    let (server, [client]) = setup().await;
    make_count(&server, 0);
    let semaphore = counted(&client);
    for number in [0, -1, i32::MIN] {
        set_count(&server, number);
        assert!(semaphore.try_acquire(1).await.expect("an answer").is_none(), "{number}");
        assert!(semaphore.acquire_timeout(1, T / 2).await.expect("an answer").is_none(), "{number}");
    }
    let mut waiting = Box::pin(semaphore.acquire(1));
    still_pending("there are none", &mut waiting).await;
    set_count(&server, 1);
    released(within("there is one", SOON, waiting).await.expect("held")).await;
    assert_eq!((nodes(&server), server.watches()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn the_number_is_never_one_that_was_read_before() {
    let (server, [one, two]) = setup().await;
    make_count(&server, 2);
    let (one, two) = (counted(&one), counted(&two));
    released(acquired(&one, 2).await).await;
    released(acquired(&two, 2).await).await;
    set_count(&server, 1);
    assert!(two.try_acquire(2).await.expect("an answer").is_none());
    let first = acquired(&one, 1).await;
    assert!(two.try_acquire(1).await.expect("an answer").is_none());
    drop(first);
    nodes_are(&server, (0, 0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_missing_or_no_count_is_an_error_of_the_call_also_while_it_waits() {
    let (server, [one, two]) = setup().await;
    let (one, two) = (counted(&one), counted(&two));
    let error = one.acquire(1).await.expect_err("there is no node");
    assert_eq!(error.kind(), ErrorKind::NoNode, "{error}");
    assert!(error.to_string().contains(COUNT), "{error}");
    nodes_are(&server, (0, 0)).await;
    make_count(&server, 1);
    for spoils in [true, false] {
        let held = acquired(&one, 1).await;
        let mut waiting = Box::pin(two.acquire(1));
        still_pending("it is taken", &mut waiting).await;
        if spoils {
            server.set_data_by_hand(COUNT, "1").expect("it exists");
        } else {
            server.delete_by_hand(COUNT).expect("it exists");
        }
        let error = within("it is told", SOON, waiting).await.expect_err("there is no count");
        let (kind, part) = if spoils { (ErrorKind::Other, "1 bytes") } else { (ErrorKind::NoNode, COUNT) };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part) && error.to_string().contains(COUNT), "{error}");
        assert!(held.is_held(), "holders need no count");
        released(held).await;
        nodes_are(&server, (0, 0)).await;
        if spoils {
            set_count(&server, 1);
        }
    }
    server.create_by_hand(COUNT, 1i32.to_be_bytes(), CreateMode::Persistent).expect("a new node");
    released(acquired(&two, 1).await).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_count_that_may_not_be_read_is_an_error_and_costs_no_permit() {
    let (server, [one, two]) = setup().await;
    make_count(&server, 1);
    server.deny(COUNT);
    let error = within("it is told", SOON, counted(&one).acquire(1)).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    nodes_are(&server, (0, 0)).await;
    server.allow(COUNT);
    released(acquired(&counted(&two), 1).await).await;
}
