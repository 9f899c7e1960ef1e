//! The process of a member is stopped, as by SIGSTOP.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;

use super::fixture::{PATH, enter_all, leave_all, members, nodes, setup, there_are};
use crate::fixture::{SOON, T, nothing_is_left, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_slow_waiter_finds_the_round_open_though_the_others_want_to_leave() {
    let (server, clients) = setup(3).await;
    let all = members(&clients, 3);
    let mut all = all.into_iter();
    let (slow, others): (_, Vec<_>) = (all.next().expect("three"), all.collect());
    let entered = server.spawn(&clients[0], async move {
        slow.enter().await.expect("in");
        slow
    });
    there_are(&server, 1).await;
    server.freeze_client(&clients[0]);
    enter_all(&others).await;
    let mut leaving = Box::pin(async { tokio::join!(others[0].leave(), others[1].leave()) });
    still_pending("the slow one is inside", &mut leaving).await;
    tokio::time::sleep(T / 3).await;
    server.thaw_client(&clients[0]);
    let slow = within("it is in", SOON, entered).await.expect("no panic");
    let left = within("all leave", SOON, async { tokio::join!(leaving, slow.leave()) }).await;
    left.0.0.expect("out");
    left.0.1.expect("out");
    left.1.expect("out");
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_frozen_for_longer_than_its_session_gets_an_error_though_the_round_opened_meanwhile() {
    for opened in [true, false] {
        let (server, clients) = setup(2).await;
        let mut all = members(&clients, 2).into_iter();
        let (slow, other) = (all.next().expect("two"), all.next().expect("two"));
        let entered = server.spawn(&clients[0], async move { slow.enter().await });
        there_are(&server, 1).await;
        server.freeze_client(&clients[0]);
        if opened {
            within("counted", SOON, other.enter()).await.expect("in");
        }
        tokio::time::sleep(T * 3).await;
        assert_eq!(nodes(&server).len(), usize::from(opened));
        server.thaw_client(&clients[0]);
        let error = within("it hears", T, entered).await.expect("no panic").expect_err("the session is over");
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
        if opened {
            within("alone", SOON, other.leave()).await.expect("out");
        }
        nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_frozen_inside_is_told_when_it_leaves_and_delays_no_member_of_the_next_round() {
    let (server, clients) = setup(2).await;
    let mut all = members(&clients, 2).into_iter();
    let (slow, other) = (all.next().expect("two"), all.next().expect("two"));
    let (tell, told) = tokio::sync::oneshot::channel();
    let left = server.spawn(&clients[0], async move {
        slow.enter().await.expect("in");
        let _ = tell.send(());
        tokio::time::sleep(SOON).await;
        let left = slow.leave().await;
        (left, slow)
    });
    within("both", SOON, other.enter()).await.expect("in");
    told.await.expect("in");
    server.freeze_client(&clients[0]);
    within("until its session is over", T * 2, other.leave()).await.expect("out");
    server.thaw_client(&clients[0]);
    let (left, slow) = within("it hears", T, left).await.expect("no panic");
    assert_eq!(left.expect_err("the session is over").kind(), ErrorKind::SessionLost);
    let all = [slow, other];
    within("the next round", T, async { tokio::join!(all[0].enter(), all[1].enter()) }).await.0.expect("in");
    leave_all(&all).await;
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn stops_that_are_shorter_than_the_session_change_nothing() {
    let (server, clients) = setup(3).await;
    let tasks: Vec<_> = members(&clients, 3)
        .into_iter()
        .zip(&clients)
        .map(|(member, client)| {
            server.spawn(client, async move {
                for _ in 0..10 {
                    member.enter().await.expect("in");
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    member.leave().await.expect("out");
                }
            })
        })
        .collect();
    for round in 0..6 {
        let client = &clients[round % 3];
        server.freeze_client(client);
        tokio::time::sleep(T / 4).await;
        server.thaw_client(client);
        tokio::time::sleep(Duration::from_millis(777)).await;
    }
    for task in tasks {
        within("done", T * 3, task).await.expect("no panic");
    }
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}
