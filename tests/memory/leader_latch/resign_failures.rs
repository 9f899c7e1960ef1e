//! Requests to resign in failures: lost replies, lost sessions, stopped processes, nodes deleted by hand.

use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch, ResignError, ask_to_resign};
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{
    Edges, PATH, can_be_asked, latch, leads, leads_in_the_end, make_directory, node_of, reaches, request_of, revocable,
    setup, waits,
};
use crate::fixture::log::Log;
use crate::fixture::{SOON, T, still_pending, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

/// A leader that can be asked, a participant behind it, and the leader's node.
async fn two_in_line(grace: Duration) -> (TestingServer, [Client; 3], [LeaderLatch; 2], String) {
    let (server, clients) = setup::<3>().await;
    let leader = revocable(&clients[0], "leader", grace);
    let node = can_be_asked(&server, &leader).await;
    let next = latch(&clients[1], "next");
    waits(&next).await;
    (server, clients, [leader, next], node)
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_reply_is_lost_arrives_once() {
    for loss in LOSSES {
        let (server, clients, [leader, next], node) = two_in_line(Duration::ZERO).await;
        server.lose_next_reply(&clients[2], Operation::Multi, loss);
        ask_to_resign(&clients[2], &node).await.expect("asked");
        assert_eq!(server.lost_replies(), 1);
        leads(&next).await;
        waits(&leader).await;
        tokio::time::sleep(SOON).await;
        assert!(next.has_leadership() && server.children(PATH).len() == 2, "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_participant_whose_node_of_requests_was_created_without_an_answer_can_be_asked() {
    for loss in LOSSES {
        let server = TestingServer::start();
        make_directory(&server);
        let client = server.client().await.expect("a client");
        server.create_by_hand(&format!("{PATH}-requests"), "", CreateMode::Persistent).expect("a new node");
        let leader = revocable(&client, "leader", Duration::ZERO);
        // The first create is that of its place.
        server.until(|| server.count(&client, Operation::Create) == 1).await;
        server.lose_next_reply(&client, Operation::Create, loss);
        server.until(|| server.lost_replies() == 1).await;
        let node = can_be_asked(&server, &leader).await;
        let token = leads_in_the_end(&leader).await.fencing_token();
        ask_to_resign(&client, &node).await.expect("asked");
        server.until(|| server.stat(&node).is_none()).await;
        assert!(leads(&leader).await.fencing_token() > token);
        leader.close().await.expect("closed");
        server.until(|| server.children(&format!("{PATH}-requests")).is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_whose_reply_is_lost_leaves_one_node() {
    for loss in LOSSES {
        let (server, clients, [leader, next], node) = two_in_line(Duration::ZERO).await;
        server.lose_next_reply(&clients[0], Operation::Delete, loss);
        let edges = Edges::of(&next);
        ask_to_resign(&clients[2], &node).await.expect("asked");
        server.until(|| server.lost_replies() == 1).await;
        leads(&next).await;
        within("it is in line again", T, server.until(|| server.children(PATH).len() == 2)).await;
        assert_ne!(can_be_asked(&server, &leader).await, node);
        assert_eq!(edges.seen().len(), 1, "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_with_the_session_of_the_participant() {
    let (server, clients, [leader, next], node) = two_in_line(Duration::MAX).await;
    let leadership = leads(&leader).await;
    ask_to_resign(&clients[2], &node).await.expect("asked");
    within("it is told", SOON, leadership.on_revoke()).await.expect("it leads");
    server.expire_session(&clients[0]);
    leads(&next).await;
    assert_ne!(can_be_asked(&server, &leader).await, node);
    next.close().await.expect("closed");
    let again = leads(&leader).await;
    let mut told = Box::pin(again.on_revoke());
    still_pending("no client has asked in this session", &mut told).await;
    assert_eq!(server.children(&format!("{PATH}-requests")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_stopped_when_it_is_asked_resigns_late_or_has_lost_its_place() {
    for stopped in [T / 2, Duration::from_secs(60)] {
        let (server, clients, [leader, next], node) = two_in_line(Duration::ZERO).await;
        server.freeze_client(&clients[0]);
        ask_to_resign(&clients[2], &node).await.expect("asked");
        tokio::time::sleep(stopped).await;
        assert_eq!(next.has_leadership(), stopped > T, "its session lasts for {T:?}");
        server.thaw_client(&clients[0]);
        leads(&next).await;
        waits(&leader).await;
        tokio::time::sleep(SOON).await;
        assert!(next.has_leadership() && !leader.has_leadership());
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_cut_off_when_it_was_asked_learns_of_it_when_it_is_back() {
    let (server, clients, [leader, next], node) = two_in_line(Duration::from_secs(2)).await;
    server.refuse(&clients[0]);
    server.disconnect(&clients[0]);
    reaches(&leader, LatchStatus::Suspended).await;
    ask_to_resign(&clients[2], &node).await.expect("asked");
    server.heal();
    // It does not lead at this moment, so it has nothing to finish.
    leads(&next).await;
    waits(&leader).await;
}

#[tokio::test(start_paused = true)]
async fn a_suspension_during_the_grace_period_does_not_end_it() {
    let (server, clients, [leader, next], node) = two_in_line(Duration::from_secs(5)).await;
    let first = leads(&leader).await;
    ask_to_resign(&clients[2], &node).await.expect("asked");
    within("it is told", SOON, first.on_revoke()).await.expect("it leads");
    server.refuse(&clients[0]);
    server.disconnect(&clients[0]);
    reaches(&leader, LatchStatus::Suspended).await;
    server.heal();
    let again = leads(&leader).await;
    assert_eq!(again.fencing_token(), first.fencing_token());
    within("the new term is told too", SOON, again.on_revoke()).await.expect("it leads");
    leads(&next).await;
    assert!(!again.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_node_of_requests_that_is_deleted_by_hand_is_created_again() {
    let (server, clients, [leader, next], node) = two_in_line(Duration::ZERO).await;
    let leadership = leads(&leader).await;
    server.delete_by_hand(&request_of(&node)).expect("it exists");
    assert_eq!(can_be_asked(&server, &leader).await, node);
    server.delete_by_hand(&request_of(&node)).expect("it exists");
    server.delete_by_hand(&format!("{PATH}-requests")).expect("it is empty");
    assert_eq!(can_be_asked(&server, &leader).await, node);
    assert!(leadership.is_held(), "that is no request");
    server.set_data_by_hand(&request_of(&node), "please").expect("it exists");
    tokio::time::sleep(SOON).await;
    assert!(leadership.is_held(), "nor is this");
    ask_to_resign(&clients[2], &node).await.expect("asked");
    leads(&next).await;
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_deleted_by_hand_takes_its_request_with_it() {
    let (server, clients, [leader, next], node) = two_in_line(Duration::MAX).await;
    ask_to_resign(&clients[2], &node).await.expect("asked");
    server.delete_by_hand(&node).expect("it exists");
    leads(&next).await;
    waits(&leader).await;
    assert_ne!(can_be_asked(&server, &leader).await, node);
    server.until(|| server.stat(&request_of(&node)).is_none()).await;
    ask_to_resign(&clients[2], &node).await.expect("it is gone, and no other node is asked");
    assert_eq!(server.get(&request_of(&node_of(&leader))).as_deref(), Some(&b""[..]));
}

#[tokio::test(start_paused = true)]
async fn one_without_permission_takes_part_and_cannot_be_asked_until_it_has_it() {
    let (log, subscriber) = Log::new(LevelFilter::WARN);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let (server, [client]) = setup().await;
    let requests = format!("{PATH}-requests");
    server.create_by_hand(&requests, "", CreateMode::Persistent).expect("a new node");
    server.deny(&requests);
    let leader = revocable(&client, "leader", Duration::ZERO);
    leads(&leader).await;
    tokio::time::sleep(SOON).await;
    let warnings = log.lines("cannot be asked to resign");
    assert!((1..=2).contains(&warnings.len()), "the delays grow: {warnings:#?}");
    let refused = ask_to_resign(&client, &node_of(&leader)).await.expect_err("it cannot be asked");
    assert!(matches!(refused, ResignError::NotRevocable { .. }) || refused.kind() == ErrorKind::NoAuth, "{refused}");
    server.allow(&requests);
    let accepts = server.until(|| server.stat(&request_of(&node_of(&leader))).is_some());
    within("it can be asked", Duration::from_secs(60), accepts).await;
    assert!(leader.has_leadership());
}

#[tokio::test(start_paused = true)]
async fn a_latch_that_closes_or_is_dropped_after_a_request_leaves_nothing() {
    for dropped in [false, true] {
        let (server, clients, [leader, next], node) = two_in_line(Duration::from_secs(1)).await;
        ask_to_resign(&clients[2], &node).await.expect("asked");
        if dropped {
            drop(leader);
        } else {
            leader.close().await.expect("closed");
        }
        leads(&next).await;
        next.close().await.expect("closed");
        let is_empty = || server.children(PATH).is_empty() && server.children(&format!("{PATH}-requests")).is_empty();
        within("nothing is left", SOON, server.until(is_empty)).await;
        assert_eq!(server.watches(), 0);
    }
}
