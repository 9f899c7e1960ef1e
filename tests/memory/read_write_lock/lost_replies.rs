//! The connection breaks after a request was handed over, and with it the answer is lost.

use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{gets, line, line_has, lock, reading, setup, waits_to_write, writing};
use crate::fixture::{T, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_create_or_list_is_not_answered_has_one_node_and_the_lock() {
    for operation in [Operation::Create, Operation::List] {
        for loss in LOSSES {
            let (server, [client]) = setup().await;
            server.lose_next_reply(&client, operation, loss);
            let reader = within("it reads", T, lock(&client).read().acquire()).await.expect("it reads");
            assert_eq!((server.lost_replies(), line(&server).len()), (1, 1), "{operation:?} {loss:?}");
            assert!(reader.is_held());
            drop(reader);
            server.lose_next_reply(&client, operation, loss);
            let writer = within("it writes", T, lock(&client).write().acquire()).await.expect("it writes");
            assert_eq!((server.lost_replies(), line(&server).len()), (2, 1), "{operation:?} {loss:?}");
            assert!(writer.is_held());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_create_list_or_watch_is_not_answered_gets_its_turn() {
    for operation in [Operation::Create, Operation::List, Operation::GetData] {
        for loss in LOSSES {
            let (server, [one, two]) = setup().await;
            let writer = writing(&one).await;
            server.lose_next_reply(&two, operation, loss);
            let read = lock(&two).read();
            let mut reader: super::fixture::Waiting<_> = Box::pin(async move { read.acquire().await });
            assert!(tokio::time::timeout(T, &mut reader).await.is_err(), "another writes");
            assert_eq!((server.lost_replies(), line(&server).len()), (1, 2), "{operation:?} {loss:?}");
            writer.release().await.expect("it was held");
            assert!(gets(reader).await.is_held());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_or_drop_whose_delete_is_not_answered_ends_with_no_node() {
    for loss in LOSSES {
        for releases in [true, false] {
            let (server, [one, two]) = setup().await;
            let reader = reading(&one).await;
            let waiting = waits_to_write(&two).await;
            server.lose_next_reply(&one, Operation::Delete, loss);
            if releases {
                within("it is released", T, reader.release()).await.expect("released");
            } else {
                drop(reader);
            }
            drop(within("it writes", T, waiting).await.expect("it writes"));
            assert_eq!(server.lost_replies(), 1);
            line_has(&server, 0).await;
        }
    }
}
