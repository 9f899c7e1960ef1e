//! The connection breaks after a request was handed over, and with it the answer is lost.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{PATH, assert_unknown, held, number, pair, setup, setup_with, writers};
use crate::fixture::{T, polled, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

#[tokio::test(start_paused = true)]
async fn an_addition_whose_answer_is_lost_counts_once() {
    for loss in LOSSES {
        let (server, [client]) = setup_with(10).await;
        let hits = number(&client);
        assert_eq!(pair(hits.increment().await.expect("added")), (10, 11));
        server.lose_next_reply(&client, Operation::Multi, loss);
        assert_eq!(pair(within("it is known", T, hits.increment()).await.expect("known")), (11, 12), "{loss:?}");
        assert_eq!(server.lost_replies(), 1);
        assert_eq!(held(&server), Some(12), "{loss:?}");
        assert_eq!(pair(hits.increment().await.expect("added")), (12, 13), "{loss:?}");
        assert_eq!(writers(&server).len(), 1, "the session and the node are the same");
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_of_the_first_addition_may_lose_its_answer() {
    for loss in LOSSES {
        for operation in [Operation::Create, Operation::GetData, Operation::Multi] {
            for earlier in 0..3 {
                let (server, [client]) = setup().await;
                let hits = number(&client);
                // The creations that come before: of the handle's node, of the number's, of its parent.
                let adding = async {
                    if operation == Operation::Create {
                        server.until(|| server.count(&client, Operation::Create) > earlier).await;
                    }
                    server.lose_next_reply(&client, operation, loss);
                };
                let (added, ()) = tokio::join!(within("it is added", T, hits.add(5)), adding);
                assert_eq!(pair(added.expect("known")), (0, 5), "{operation:?} {loss:?}");
                assert_eq!(pair(hits.add(5).await.expect("added")), (5, 10), "{operation:?} {loss:?}");
                assert_eq!(held(&server), Some(10));
                within("one node", T, server.until(|| writers(&server).len() == 1)).await;
                drop(hits);
                within("no node", T, server.until(|| writers(&server).is_empty())).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_write_is_settled_the_same_way() {
    for loss in LOSSES {
        let (server, [client]) = setup().await;
        let hits = number(&client);
        server.lose_next_reply(&client, Operation::Multi, loss);
        assert_eq!(within("it is known", T, hits.initialize(1)).await, Ok(true), "{loss:?}");
        server.lose_next_reply(&client, Operation::Multi, loss);
        assert_eq!(within("it is known", T, hits.compare_and_set(1, 2)).await, Ok(true), "{loss:?}");
        server.lose_next_reply(&client, Operation::Multi, loss);
        assert_eq!(within("it is known", T, hits.set(3)).await, Ok(()), "{loss:?}");
        assert_eq!(server.lost_replies(), 3);
        assert_eq!(held(&server), Some(3));
    }
}

/// Curator's defect: in doubt, it adds again.
#[tokio::test(start_paused = true)]
async fn another_clients_write_after_the_lost_answer_changes_nothing() {
    for loss in LOSSES {
        let (server, [client, other]) = setup_with(0).await;
        let (hits, others) = (number(&client), number(&other));
        hits.increment().await.expect("added");
        server.refuse(&client);
        server.lose_next_reply(&client, Operation::Multi, loss);
        let mut adding = Box::pin(hits.add(10));
        crate::fixture::still_pending("there is no connection", &mut adding).await;
        assert_eq!(server.lost_replies(), 1);
        others.add(100).await.expect("added");
        server.heal();
        let added = within("it is known", T, adding).await.expect("known");
        let before = if loss == Loss::Applied { 1 } else { 101 };
        assert_eq!(pair(added), (before, before + 10), "{loss:?}");
        assert_eq!(held(&server), Some(111), "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_in_doubt_leaves_the_outcome_unknown() {
    for loss in LOSSES {
        let (server, [client]) = setup_with(0).await;
        let hits = number(&client);
        hits.increment().await.expect("added");
        server.refuse(&client);
        server.lose_next_reply(&client, Operation::Multi, loss);
        let mut adding = Box::pin(hits.add(10));
        crate::fixture::still_pending("there is no connection", &mut adding).await;
        server.expire_session(&client);
        server.heal();
        assert_unknown(&within("the session is over", T * 2, adding).await.expect_err("not known"));
        let sum = if loss == Loss::Applied { 11 } else { 1 };
        assert_eq!(held(&server), Some(sum), "{loss:?}");
        assert_eq!(pair(within("in the next session", T, hits.increment()).await.expect("added")), (sum, sum + 1));
        assert_eq!(writers(&server).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn in_doubt_a_node_that_others_deleted_or_wrote_cannot_tell() {
    for loss in LOSSES {
        for deleted in [true, false] {
            let (server, [client]) = setup_with(0).await;
            let hits = number(&client);
            hits.increment().await.expect("added");
            server.refuse(&client);
            server.lose_next_reply(&client, Operation::Multi, loss);
            let mut adding = Box::pin(hits.add(10));
            crate::fixture::still_pending("there is no connection", &mut adding).await;
            let node = writers(&server).pop().expect("the handle's node");
            if deleted {
                server.delete_by_hand(&node).expect("it is there");
            } else {
                server.set_data_by_hand(&node, "1 1").expect("it is there");
            }
            server.heal();
            assert_unknown(&within("it is read", T, adding).await.expect_err("not known"));
            let sum = if loss == Loss::Applied { 11 } else { 1 };
            assert_eq!(pair(hits.increment().await.expect("added")), (sum, sum + 1), "{loss:?}");
            within("one node", T, server.until(|| writers(&server).len() == 1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_whose_answer_is_lost_is_repeated() {
    let (server, [client]) = setup_with(4).await;
    for operation in [Operation::Sync, Operation::GetData] {
        server.lose_next_reply(&client, operation, Loss::Applied);
        assert_eq!(within("it is read", T, number(&client).get()).await, Ok(4));
    }
    assert_eq!(server.lost_replies(), 2);
}

/// A dropped call may be carried out, once; the next one finds out.
#[tokio::test(start_paused = true)]
async fn an_addition_that_is_dropped_at_any_poll_counts_at_most_once() {
    for loss in [None, Some(Loss::Applied), Some(Loss::NotApplied)] {
        for first in [true, false] {
            for polls in 0..8 {
                let (server, [client]) = setup_with(0).await;
                let hits = number(&client);
                if !first {
                    hits.add(0).await.expect("added");
                }
                if let Some(loss) = loss {
                    server.lose_next_reply(&client, Operation::Multi, loss);
                }
                let dropped = polled(polls, hits.add(1)).await;
                let added = within("the next one", T, hits.add(10)).await.expect("known");
                assert!(added.before == 0 || added.before == 1, "{added:?}");
                assert!(dropped.is_none() || added.before == 1, "{added:?}");
                assert_eq!(held(&server), Some(added.after), "nothing comes late");
                within("one node", T, server.until(|| writers(&server).len() == 1)).await;
                drop(hits);
                within("no node", T, server.until(|| writers(&server).is_empty())).await;
                assert_eq!(server.get(PATH), Some(added.after.to_be_bytes().to_vec()));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_nothing_is_written_and_the_error_says_so() {
    let (server, [client]) = setup_with(0).await;
    let hits = number(&client);
    hits.increment().await.expect("added");
    server.refuse(&client);
    server.disconnect(&client);
    within("the client knows", T, server.until(|| !client.connection_state().is_connected())).await;
    let error = within("the connection timeout", T * 4, hits.increment()).await.expect_err("no connection");
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
    assert!(error.is_retryable() && error.to_string().contains(PATH), "{error}");
    server.heal();
    assert_eq!(pair(within("connected", T, hits.increment()).await.expect("added")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn an_addition_whose_answer_cannot_be_read_is_not_said_to_have_no_answer() {
    let (server, [client]) = setup_with(10).await;
    let hits = number(&client);
    assert_eq!(pair(hits.increment().await.expect("added")), (10, 11));
    server.lose_next_reply(&client, Operation::Multi, Loss::Malformed);
    assert_eq!(pair(within("it is known", T, hits.increment()).await.expect("known")), (11, 12));
    server.lose_next_reply(&client, Operation::Multi, Loss::Malformed);
    server.fail_reads(&writers(&server)[0], Operation::GetData);
    let error = within("it is looked at", T, hits.increment()).await.expect_err("nor can the handle's node be read");
    let text = error.to_string();
    assert!(text.contains("its answer cannot be read") && !text.contains("no answer came"), "{text}");
    assert_unknown(&error);
}
