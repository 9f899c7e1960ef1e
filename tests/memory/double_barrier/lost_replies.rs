//! The connection breaks after a request was handed over, and with it the answer is lost.

use futures::future::join_all;
use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{LIMIT, PATH, enter_all, leave_all, members, nodes, setup};
use crate::fixture::{SOON, T, nothing_is_left, still_pending, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

#[tokio::test(start_paused = true)]
async fn an_enter_of_which_any_reply_is_lost_has_one_node_and_is_let_in_with_the_others() {
    for operation in [Operation::Create, Operation::Exists, Operation::List] {
        for loss in LOSSES {
            let (server, clients) = setup(3).await;
            let all = members(&clients, 3);
            server.lose_next_reply(&clients[0], operation, loss);
            let mut one = Box::pin(all[0].enter());
            let mut two = Box::pin(all[1].enter());
            assert!(tokio::time::timeout(T, &mut one).await.is_err(), "alone");
            still_pending("two of three", &mut two).await;
            assert_eq!(server.lost_replies(), 1, "{operation:?} {loss:?}");
            assert_eq!(nodes(&server).len(), 2, "{operation:?} {loss:?}: {:?}", nodes(&server));
            let entered = within("three", T, async { tokio::join!(one, two, all[2].enter()) }).await;
            entered.0.expect("in");
            entered.1.expect("in");
            entered.2.expect("in");
            assert_eq!(nodes(&server).len(), 3);
            leave_all(&all).await;
            nothing_is_left(&server, PATH, 0, 0, &format!("{operation:?} {loss:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_opening_whose_reply_is_lost_opens_once() {
    for loss in LOSSES {
        let (server, clients) = setup(3).await;
        let all = members(&clients, 3);
        server.lose_next_reply(zookeeper_recipes::testing::Target::ALL, Operation::Multi, loss);
        let entered = within("three", T, join_all(all.iter().map(|member| member.enter()))).await;
        assert!(entered.iter().all(Result::is_ok), "{entered:?}");
        assert_eq!(server.lost_replies(), 1, "{loss:?}");
        leave_all(&all).await;
        nothing_is_left(&server, PATH, 0, 0, &format!("{loss:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leave_of_which_any_reply_is_lost_returns_when_all_have_left() {
    let operations = [Operation::List, Operation::GetData, Operation::Delete, Operation::Multi];
    let mut lost = 0;
    for operation in operations {
        for loss in LOSSES {
            // Which of them it hits: the lowest or another.
            for victim in 0..3 {
                let (server, clients) = setup(3).await;
                let all = members(&clients, 3);
                enter_all(&all).await;
                server.lose_next_reply(&clients[victim], operation, loss);
                let mut early = Box::pin(join_all(all[..2].iter().map(|member| member.leave())));
                assert!(tokio::time::timeout(T, &mut early).await.is_err(), "the third is inside");
                let (early, third) = within("all leave", T, async { tokio::join!(early, all[2].leave()) }).await;
                for left in early.into_iter().chain([third]) {
                    left.unwrap_or_else(|error| panic!("{operation:?} {loss:?} {victim}: {error}"));
                }
                lost += server.lost_replies();
                nothing_is_left(&server, PATH, 0, 0, &format!("{operation:?} {loss:?} {victim}")).await;
            }
        }
    }
    assert!(lost >= 16, "only {lost} replies were lost");
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_enter_whose_reply_is_lost_is_false_only_once_the_node_is_gone() {
    for loss in LOSSES {
        let (server, clients) = setup(1).await;
        let all = members(&clients, 2);
        server.lose_next_reply(&clients[0], Operation::Multi, loss);
        assert!(!all[0].enter_timeout(T * 2).await.expect("it is known"));
        assert_eq!(server.lost_replies(), 1);
        assert!(nodes(&server).is_empty(), "{loss:?}");
        nothing_is_left(&server, PATH, 0, 0, &format!("{loss:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_leave_whose_reply_is_lost_is_false_only_once_the_node_is_gone() {
    for operation in [Operation::Delete, Operation::List] {
        for loss in LOSSES {
            for victim in 0..2 {
                let (server, clients) = setup(2).await;
                let all = members(&clients, 2);
                enter_all(&all).await;
                server.lose_next_reply(&clients[victim], operation, loss);
                assert!(!all[victim].leave_timeout(T * 2).await.expect("it is known"));
                assert_eq!(server.lost_replies(), 1);
                assert_eq!(nodes(&server).len(), 1, "{operation:?} {loss:?}");
                within("alone", T, all[1 - victim].leave()).await.expect("out");
                nothing_is_left(&server, PATH, 0, 0, &format!("{operation:?} {loss:?}")).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_member_whose_replies_are_lost_is_in_the_round() {
    for operation in [Operation::Create, Operation::Exists, Operation::List, Operation::GetData, Operation::Multi] {
        for loss in LOSSES {
            let (server, clients) = setup(3).await;
            let all = members(&clients, 2);
            enter_all(&all[..2]).await;
            server.lose_next_reply(&clients[2], operation, loss);
            assert!(all[2].enter_timeout(T * 2).await.expect("it is known"), "{operation:?} {loss:?}");
            assert_eq!(server.lost_replies(), 1);
            assert_eq!(nodes(&server).len(), 3);
            leave_all(&all).await;
            nothing_is_left(&server, PATH, 0, 0, &format!("{operation:?} {loss:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_enter_dropped_while_its_create_is_in_doubt_leaves_nothing_and_is_not_counted_beside_the_next_one() {
    for loss in LOSSES {
        let (server, clients) = setup(1).await;
        let all = members(&clients, 2);
        server.lose_next_reply(&clients[0], Operation::Create, loss);
        server.refuse(&clients[0]);
        let mut entering = Box::pin(all[0].enter());
        still_pending("there is no connection", &mut entering).await;
        assert_eq!(server.lost_replies(), 1);
        drop(entering);
        let mut again = Box::pin(all[0].enter_timeout(LIMIT));
        still_pending("there is no connection", &mut again).await;
        server.heal();
        assert!(!within("an answer", LIMIT, again).await.expect("it is known"), "{loss:?}: alone, though twice");
        tokio::time::sleep(SOON).await;
        nothing_is_left(&server, PATH, 0, 0, &format!("{loss:?}")).await;
    }
}
