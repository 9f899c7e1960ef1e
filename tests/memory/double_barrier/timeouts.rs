//! One deadline covers everything, and its end tells the truth, the same to all.

use std::time::Duration;

use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{LIMIT, PATH, enter_all, leave_all, make_directory, members, nodes, setup, soon};
use crate::fixture::{SOON, T, nothing_is_left, requests, still_pending, timed, within};

#[tokio::test(start_paused = true)]
async fn false_means_that_nothing_is_left_and_comes_before_the_deadline() {
    let (server, clients) = setup(1).await;
    let all = members(&clients, 2);
    for _ in 0..3 {
        let (took, entered) = timed(all[0].enter_timeout(LIMIT)).await;
        assert!(!entered.expect("it is known"));
        assert!(took <= LIMIT && took >= LIMIT * 7 / 8, "{took:?}");
        // Not later: now.
        assert!(nodes(&server).is_empty());
    }
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn a_round_that_opens_in_time_is_entered() {
    let (_server, clients) = setup(2).await;
    let all = members(&clients, 2);
    let mut one = Box::pin(all[0].enter_timeout(LIMIT));
    assert!(tokio::time::timeout(LIMIT / 2, &mut one).await.is_err());
    let (one, two) = within("both", SOON, async { tokio::join!(one, all[1].enter_timeout(LIMIT)) }).await;
    assert!(one.expect("known") && two.expect("known"));
    leave_all(&all).await;
}

/// The time of one runs out at just about the moment at which the other comes: in every order of their messages either
/// both are in, or neither is.
#[tokio::test(start_paused = true)]
async fn a_time_out_and_an_opening_that_cross_have_one_verdict() {
    let (mut both, mut neither, millis) = (0, 0, Duration::from_millis);
    for seed in 0..200 {
        let server = TestingServer::builder().seed(seed).latency(millis(0)..=millis(10)).start();
        make_directory(&server);
        let clients = [server.client().await.expect("a client"), server.client().await.expect("a client")];
        let all = members(&clients, 2);
        let late = async {
            tokio::time::sleep(LIMIT - SOON - millis(30) + millis(seed % 40)).await;
            all[1].enter_timeout(LIMIT).await
        };
        let (one, two) = tokio::join!(all[0].enter_timeout(LIMIT), late);
        let (one, two) = (one.expect("known"), two.expect("known"));
        assert_eq!(one, two, "seed {seed}: one is in, and the other is not");
        if one {
            both += 1;
            leave_all(&all).await;
        } else {
            neither += 1;
        }
        nothing_is_left(&server, PATH, 0, 0, &format!("seed {seed}")).await;
    }
    assert!(both > 20 && neither > 20, "{both} times both, {neither} times neither");
}

#[tokio::test(start_paused = true)]
async fn a_leave_that_runs_out_of_time_takes_the_own_node_and_the_others_may_leave() {
    let (server, clients) = setup(3).await;
    let all = members(&clients, 3);
    enter_all(&all).await;
    for (number, member) in all.iter().enumerate().take(2) {
        let (took, left) = timed(member.leave_timeout(LIMIT)).await;
        assert!(!left.expect("it is known"), "the others are inside");
        assert!(took <= LIMIT && took >= LIMIT * 7 / 8, "{took:?}");
        assert_eq!(nodes(&server).len(), 2 - number);
    }
    assert!(soon("the last one", all[2].leave_timeout(LIMIT)).await);
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn all_whose_time_to_leave_runs_out_at_once_leave_nothing() {
    for seed in 0..30 {
        let server = TestingServer::builder().seed(seed).start();
        make_directory(&server);
        let clients = [server.client().await.expect("a client"), server.client().await.expect("a client")];
        let all = members(&clients, 2);
        enter_all(&all).await;
        let late = async {
            tokio::time::sleep(LIMIT - SOON - Duration::from_millis(5) + Duration::from_millis(seed % 10)).await;
            all[1].leave_timeout(LIMIT).await
        };
        let (one, two) = tokio::join!(all[0].leave_timeout(LIMIT), late);
        assert!(two.expect("known"), "it was the last one");
        one.expect("known");
        nothing_is_left(&server, PATH, 0, 0, &format!("seed {seed}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_sends_nothing_and_more_than_the_clock_can_tell_is_for_ever() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    server.clear_records();
    assert!(!all[0].enter_timeout(Duration::ZERO).await.expect("nothing was done"));
    assert!(requests(&server).is_empty());
    let mut for_ever = Box::pin(all[0].enter_timeout(Duration::MAX));
    still_pending("alone", &mut for_ever).await;
    all[1].enter().await.expect("in");
    assert!(for_ever.await.expect("known"));
    let mut for_ever = Box::pin(all[0].leave_timeout(Duration::MAX));
    still_pending("the other is inside", &mut for_ever).await;
    // A zero timeout has an unknown outcome too, but the node is removed.
    let error = all[1].leave_timeout(Duration::ZERO).await.expect_err("there is no reply yet");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(for_ever.await.expect("known"));
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_from_the_start_the_error_at_the_deadline_says_so_and_nothing_is_left() {
    let (server, clients) = setup(1).await;
    let all = members(&clients, 2);
    server.refuse(&clients[0]);
    server.disconnect(&clients[0]);
    server.until(|| !clients[0].connection_state().is_connected()).await;
    let (took, entered) = timed(all[0].enter_timeout(SOON)).await;
    let error = entered.expect_err("no server was asked");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.is_retryable() && error.to_string().contains("no server could be asked"), "{error}");
    assert!(took <= SOON, "{took:?}");
    server.heal();
    tokio::time::sleep(T).await;
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn in_a_silent_partition_a_call_returns_at_its_deadline_and_the_node_is_removed_later() {
    for limit in [Duration::from_millis(500), Duration::from_secs(3)] {
        for entering in [true, false] {
            let (server, clients) = setup(2).await;
            let all = members(&clients, 2);
            if !entering {
                enter_all(&all).await;
            }
            server.black_hole(&clients[0]);
            let (took, answer) = if entering {
                timed(all[0].enter_timeout(limit)).await
            } else {
                timed(all[0].leave_timeout(limit)).await
            };
            let error = answer.expect_err("the outcome is unknown");
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
            assert!(took <= limit + Duration::from_millis(1), "{took:?} of {limit:?}");
            server.heal();
            if !entering {
                within("it is not waited for", T * 2, all[1].leave()).await.expect("out");
            }
            nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_had_a_session_again_says_so_in_time() {
    let (server, _) = setup(0).await;
    let client = Client::builder_for_testing(&server).session_timeout(T).connect().await.expect("a client");
    let all = members(std::slice::from_ref(&client), 2);
    server.stop();
    tokio::time::sleep(T * 3).await;
    let (took, entered) = timed(all[0].enter_timeout(T)).await;
    let error = entered.expect_err("no server was asked");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.is_retryable() && error.to_string().contains("no server could be asked"), "{error}");
    assert!(took <= T, "{took:?}");
    server.restart(zookeeper_recipes::testing::Data::Kept);
}
