//! Sessions end: while entering, inside, while leaving.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::double_barrier::Error;
use zookeeper_recipes::testing::Data;

use super::fixture::{LIMIT, PATH, enter_all, is_open, leave_all, member, members, nodes, setup, there_are};
use crate::fixture::{SOON, T, nothing_is_left, still_pending, within};

fn is_lost(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert!(error.is_lost() && !error.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_entering_is_an_error_at_once_and_its_member_is_not_counted() {
    for limited in [true, false] {
        let (server, clients) = setup(3).await;
        let all = members(&clients, 3);
        let mut doomed: std::pin::Pin<Box<dyn Future<Output = Result<bool, Error>>>> = if limited {
            Box::pin(all[0].enter_timeout(T * 5))
        } else {
            Box::pin(async { all[0].enter().await.map(|()| true) })
        };
        still_pending("alone", &mut doomed).await;
        let mut other = Box::pin(all[1].enter());
        still_pending("two of three", &mut other).await;
        server.expire_session(&clients[0]);
        is_lost(&within("an error", SOON, doomed).await.expect_err("the session is over"));
        there_are(&server, 1).await;
        let mut third = Box::pin(all[2].enter());
        still_pending("two of three, and a dead one", &mut third).await;
        still_pending("two of three, and a dead one", &mut other).await;
        // It may enter again, with its next session.
        let entered = within("three", T, async { tokio::join!(all[0].enter(), other, third) }).await;
        entered.0.expect("in");
        entered.1.expect("in");
        entered.2.expect("in");
        leave_all(&all).await;
        nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_dies_inside_or_while_leaving_is_waited_for_until_its_session_is_over_and_no_longer() {
    for while_leaving in [true, false] {
        // Which of them dies: the lowest or another.
        for victim in 0..3 {
            let (server, clients) = setup(3).await;
            let all = members(&clients, 3);
            enter_all(&all).await;
            let mut dying = Box::pin(all[victim].leave());
            if while_leaving {
                still_pending("the others are inside", &mut dying).await;
            }
            let others = [&all[(victim + 1) % 3], &all[(victim + 2) % 3]];
            // Its process is frozen: its node stays until the session expires.
            let had_node = nodes(&server).len() == 3;
            server.freeze_client(&clients[victim]);
            let mut leaving = Box::pin(async { tokio::join!(others[0].leave(), others[1].leave()) });
            if had_node {
                still_pending("its session is alive", &mut leaving).await;
            }
            let (one, two) = within("the rest leaves", T * 2, leaving).await;
            one.expect("out");
            two.expect("out");
            server.thaw_client(&clients[victim]);
            if had_node {
                is_lost(&within("an error", T * 2, dying).await.expect_err("the session is over"));
            } else {
                let _ = within("an answer", T * 2, dying).await;
            }
            nothing_is_left(&server, PATH, 0, 0, &format!("{while_leaving} {victim}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_inside_is_told_by_leave_and_the_member_may_enter_again() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    for _ in 0..3 {
        enter_all(&all).await;
        server.expire_session(&clients[0]);
        server.until(|| nodes(&server).len() == 1).await;
        is_lost(&within("an error", SOON, all[0].leave()).await.expect_err("the session is over"));
        within("alone", SOON, all[1].leave()).await.expect("out");
        server.until(|| clients[0].session_id().is_some()).await;
    }
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_leaving_is_an_error_at_once() {
    for victim in 0..2 {
        let (server, clients) = setup(3).await;
        let all = members(&clients, 3);
        enter_all(&all).await;
        let mut leaving = Box::pin(all[victim].leave());
        still_pending("the others are inside", &mut leaving).await;
        server.expire_session(&clients[victim]);
        is_lost(&within("an error", SOON, leaving).await.expect_err("the session is over"));
        assert!(is_open(&server), "the others are inside");
        let rest: Vec<_> = (0..3).filter(|number| *number != victim).collect();
        let (one, two) =
            within("the rest leaves", SOON, async { tokio::join!(all[rest[0]].leave(), all[rest[1]].leave()) }).await;
        one.expect("out");
        two.expect("out");
        nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_given_up_is_not_counted_beside_its_successor() {
    // Time is paused for sessions while the servers are stopped: they know a session that the client must take for
    // over.
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    let mut entering = Box::pin(all[0].enter());
    still_pending("alone", &mut entering).await;
    server.stop();
    is_lost(&within("an error", T * 2, entering).await.expect_err("no sign of life"));
    server.restart(Data::Kept);
    assert_eq!(nodes(&server).len(), 1, "the servers know of nothing yet");
    let mut again = Box::pin(all[0].enter());
    still_pending("alone, though twice", &mut again).await;
    assert!(!is_open(&server));
    let (one, two) = within("both", T, async { tokio::join!(again, all[1].enter()) }).await;
    one.expect("in");
    two.expect("in");
    leave_all(&all).await;
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn a_short_loss_of_the_connection_is_waited_out_wherever_it_comes() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    for _ in 0..3 {
        let mut one = Box::pin(all[0].enter());
        still_pending("alone", &mut one).await;
        server.disconnect(&clients[0]);
        still_pending("alone", &mut one).await;
        assert_eq!(nodes(&server).len(), 1, "the same session, the same node");
        // The round opens while it is cut off.
        server.refuse(&clients[0]);
        server.disconnect(&clients[0]);
        within("it is counted", SOON, all[1].enter()).await.expect("in");
        still_pending("cut off", &mut one).await;
        server.heal();
        within("it hears of it", SOON * 2, one).await.expect("in");
        let mut one = Box::pin(all[0].leave());
        still_pending("the other is inside", &mut one).await;
        server.refuse(&clients[0]);
        server.disconnect(&clients[0]);
        let heal = async {
            tokio::time::sleep(SOON).await;
            server.heal();
        };
        let left = within("out", SOON * 3, async { tokio::join!(one, all[1].leave(), heal) }).await;
        left.0.expect("out");
        left.1.expect("out");
    }
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn the_verdict_survives_an_outage_of_all_servers() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    let mut one = Box::pin(all[0].enter());
    still_pending("alone", &mut one).await;
    server.stop();
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.restart(zookeeper_recipes::testing::Data::Kept);
    let (one, two) = within("both", T, async { tokio::join!(one, all[1].enter()) }).await;
    one.expect("in");
    two.expect("in");
    // Everything is gone, also the barrier's node.
    server.restart(zookeeper_recipes::testing::Data::Lost);
    for member in &all {
        is_lost(&within("an error", T * 2, member.leave()).await.expect_err("the session is unknown"));
    }
    let fresh = [member(&clients[0], 2), member(&clients[1], 2)];
    let (one, two) = within("both", LIMIT, async { tokio::join!(fresh[0].enter(), fresh[1].enter()) }).await;
    one.expect("in");
    two.expect("in");
    leave_all(&fresh).await;
}
