//! The connection breaks after a request was handed over, and with it the answer is lost.

use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{acquired, line, line_has, mutex, released, setup};
use crate::fixture::{T, still_pending, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_create_or_list_is_not_answered_has_one_node_and_the_lock() {
    for operation in [Operation::Create, Operation::List] {
        for loss in LOSSES {
            let (server, client, _) = setup().await;
            let mutex = mutex(&client);
            server.lose_next_reply(&client, operation, loss);
            let guard = within("it is acquired in the end", T, mutex.acquire()).await.expect("held");
            assert_eq!(server.lost_replies(), 1, "{operation:?} {loss:?}");
            assert!(guard.is_held());
            assert_eq!(line(&server).len(), 1, "{operation:?} {loss:?}: {:?}", line(&server));
            released(guard).await;
            assert!(line(&server).is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_create_list_or_watch_is_not_answered_gets_its_turn() {
    for operation in [Operation::Create, Operation::List, Operation::GetData] {
        for loss in LOSSES {
            let (server, one, two) = setup().await;
            let (one, mutex) = (acquired(&mutex(&one)).await, mutex(&two));
            server.lose_next_reply(&two, operation, loss);
            let mut waiting = Box::pin(mutex.acquire());
            assert!(tokio::time::timeout(T, &mut waiting).await.is_err(), "the lock is held");
            assert_eq!(server.lost_replies(), 1, "{operation:?} {loss:?}");
            assert!(one.is_held());
            assert_eq!(line(&server).len(), 2, "{operation:?} {loss:?}");
            released(one).await;
            let two = within("it is its turn", T, waiting).await.expect("held");
            assert!(two.is_held());
            released(two).await;
            assert!(line(&server).is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_delete_is_not_answered_returns_when_the_node_is_gone() {
    for loss in LOSSES {
        let (server, client, _) = setup().await;
        let guard = acquired(&mutex(&client)).await;
        server.lose_next_reply(&client, Operation::Delete, loss);
        within("it is released", T, guard.release()).await.expect("released");
        assert_eq!(server.lost_replies(), 1);
        assert!(line(&server).is_empty(), "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_whose_delete_is_not_answered_is_gone_in_the_end() {
    for loss in LOSSES {
        let (server, client, other) = setup().await;
        let guard = acquired(&mutex(&client)).await;
        server.lose_next_reply(&client, Operation::Delete, loss);
        drop(guard);
        let next = within("the next one gets it", T, mutex(&other).acquire()).await.expect("held");
        assert_eq!(server.lost_replies(), 1);
        assert_eq!(line(&server).len(), 1, "{loss:?}");
        released(next).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_whose_requests_are_not_answered_tells_the_truth_and_leaves_nothing() {
    for operation in [Operation::Create, Operation::List, Operation::Delete] {
        for loss in LOSSES {
            let (server, one, two) = setup().await;
            let held = acquired(&mutex(&one)).await;
            server.lose_next_reply(&two, operation, loss);
            let tried = within("an answer", T * 2, mutex(&two).try_acquire()).await.expect("an answer");
            assert!(tried.is_none());
            assert_eq!(server.lost_replies(), 1, "{operation:?} {loss:?}");
            assert_eq!(line(&server).len(), 1, "{operation:?} {loss:?}: {:?}", line(&server));
            assert!(held.is_held());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_acquire_whose_delete_is_not_answered_is_none_only_once_the_node_is_gone() {
    for loss in LOSSES {
        let (server, one, two) = setup().await;
        let _held = acquired(&mutex(&one)).await;
        server.lose_next_reply(&two, Operation::Delete, loss);
        let tried = mutex(&two).acquire_timeout(T * 2).await.expect("it is known");
        assert!(tried.is_none());
        assert_eq!(server.lost_replies(), 1);
        assert_eq!(line(&server).len(), 1, "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_while_its_create_is_in_doubt_leaves_nothing() {
    for loss in LOSSES {
        let (server, client, _) = setup().await;
        server.lose_next_reply(&client, Operation::Create, loss);
        server.refuse(&client);
        let mutex = mutex(&client);
        let mut acquiring = Box::pin(mutex.acquire());
        still_pending("there is no connection", &mut acquiring).await;
        assert_eq!(server.lost_replies(), 1);
        drop(acquiring);
        server.heal();
        tokio::time::sleep(T).await;
        line_has(&server, 0).await;
    }
}
