//! Transfers that do not go as planned. Each has a definite end: one participant leads, and the caller is told which.

use std::time::Duration;

use futures::future::join;
use zookeeper_recipes::leader_latch::{LeaderLatch, ResignError, ask_to_resign, transfer};
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{
    PATH, can_be_asked, latch, leads, line_becomes, make_directory, node_of, request_of, revocable, revocable_line,
    setup, waits,
};
use crate::fixture::{SOON, T, within};

const WITHIN: Duration = Duration::from_secs(3);

/// Whether this is a request, of a transfer or of any other client.
fn asks_to_resign(data: &[u8]) -> bool {
    data.starts_with(b"resign")
}

/// Waits until this many requests are pending.
async fn pending(server: &TestingServer, requests: usize) {
    let dir = format!("{PATH}-requests");
    let is_request = |name: &String| server.get(&format!("{dir}/{name}")).is_some_and(|data| asks_to_resign(&data));
    within(
        "requests",
        SOON,
        server.until(|| server.children(&dir).iter().filter(|one| is_request(one)).count() == requests),
    )
    .await;
}

/// Checks that a transfer did not happen, and returns why and who leads.
fn not_transferred(outcome: Result<impl std::fmt::Debug, ResignError>) -> (String, Option<String>) {
    match outcome {
        Err(error @ (ResignError::Left { .. } | ResignError::Unanswered { .. })) => {
            let text = error.to_string();
            let (ResignError::Left { leader, .. } | ResignError::Unanswered { leader, .. }) = error else {
                unreachable!()
            };
            (text, leader.map(|leader| leader.id))
        }
        other => panic!("{other:?}"),
    }
}

/// The line leader, between, target, and a client that takes no part.
async fn three(server: &TestingServer, clients: &[Client]) -> Vec<LeaderLatch> {
    revocable_line(server, clients, &["leader", "between", "target"]).await
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_does_not_answer_in_time_still_leads_and_is_not_asked_any_more() {
    let (server, clients) = setup::<4>().await;
    let leader = revocable(&clients[0], "leader", Duration::ZERO);
    let node = can_be_asked(&server, &leader).await;
    let target = revocable(&clients[1], "target", Duration::ZERO);
    can_be_asked(&server, &target).await;
    let term = leads(&leader).await;
    server.freeze_client(&clients[0]);
    let (why, leads_now) = not_transferred(transfer(&clients[3], PATH, "target", WITHIN).await);
    assert_eq!(leads_now.as_deref(), Some("leader"));
    assert!(why.contains(&node) && why.contains("3s"), "{why}");
    assert_eq!(server.get(&request_of(&node)).as_deref(), Some(&b""[..]), "withdrawn");
    server.thaw_client(&clients[0]);
    tokio::time::sleep(SOON).await;
    assert!(term.is_held(), "it never knew");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_has_read_the_request_may_use_its_grace_period() {
    let (server, clients) = setup::<3>().await;
    let leader = revocable(&clients[0], "leader", Duration::from_secs(10));
    can_be_asked(&server, &leader).await;
    let target = latch(&clients[1], "target");
    waits(&target).await;
    let (_, leads_now) = not_transferred(transfer(&clients[2], PATH, "target", WITHIN).await);
    assert_eq!(leads_now.as_deref(), Some("leader"));
    assert!(!target.has_leadership());
    leads(&target).await;
    waits(&leader).await;
}

#[tokio::test(start_paused = true)]
async fn one_between_that_does_not_answer_leaves_the_leader_in_its_place() {
    let (server, clients) = setup::<4>().await;
    let line = three(&server, &clients).await;
    let (term, node) = (leads(&line[0]).await, node_of(&line[1]));
    server.freeze_client(&clients[1]);
    let (why, leads_now) = not_transferred(transfer(&clients[3], PATH, "target", WITHIN).await);
    assert!(why.contains(&node), "{why}");
    assert_eq!(leads_now.as_deref(), Some("leader"));
    server.thaw_client(&clients[1]);
    tokio::time::sleep(SOON).await;
    assert!(term.is_held() && node_of(&line[1]) == node, "no request is left");
    // After a pause that its session does not outlast, the transfer succeeds by itself.
    server.freeze_client(&clients[1]);
    let leader = transfer(&clients[3], PATH, "target", T * 3).await.expect("transferred");
    assert_eq!(leader.path, node_of(&line[2]));
}

#[tokio::test(start_paused = true)]
async fn a_target_that_dies_in_the_middle_ends_the_transfer_before_the_leader_is_asked() {
    let (server, clients) = setup::<4>().await;
    let line = three(&server, &clients).await;
    let term = leads(&line[0]).await;
    server.freeze_client(&clients[1]);
    let dies = async {
        pending(&server, 1).await;
        server.expire_session(&clients[2]);
    };
    let (outcome, ()) = join(transfer(&clients[3], PATH, "target", WITHIN), dies).await;
    let (why, leads_now) = not_transferred(outcome);
    assert!(why.contains("has left its place"), "{why}");
    assert_eq!(leads_now.as_deref(), Some("leader"));
    pending(&server, 0).await;
    server.thaw_client(&clients[1]);
    tokio::time::sleep(SOON).await;
    assert!(term.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_target_that_dies_while_the_leader_resigns_leaves_the_next_one_leading() {
    let (server, clients) = setup::<4>().await;
    let leader = revocable(&clients[0], "leader", Duration::from_secs(2));
    can_be_asked(&server, &leader).await;
    let target = revocable(&clients[1], "target", Duration::ZERO);
    can_be_asked(&server, &target).await;
    let next = latch(&clients[2], "next");
    waits(&next).await;
    let dies = async {
        pending(&server, 1).await;
        target.close().await.expect("closed");
    };
    let (outcome, ()) = join(transfer(&clients[3], PATH, "target", WITHIN), dies).await;
    let (why, leads_now) = not_transferred(outcome);
    assert!(why.contains("has left its place"), "{why}");
    assert_eq!(leads_now.as_deref(), Some("leader"), "it has read the request, and its grace period runs");
    leads(&next).await;
    waits(&leader).await;
}

#[tokio::test(start_paused = true)]
async fn two_transfers_at_once_leave_one_leader_and_say_who_it_is() {
    for (one, other) in [("c", "d"), ("d", "c"), ("b", "d"), ("c", "c")] {
        let (server, clients) = setup::<6>().await;
        let line = revocable_line(&server, &clients, &["a", "b", "c", "d"]).await;
        let both = join(transfer(&clients[4], PATH, one, WITHIN), transfer(&clients[5], PATH, other, WITHIN));
        let outcomes: [_; 2] = within("both end", WITHIN * 2, both).await.into();
        tokio::time::sleep(SOON).await;
        let leaders: Vec<_> = line.iter().filter(|latch| latch.has_leadership()).collect();
        assert_eq!(leaders.len(), 1, "{one} {other}");
        assert!(outcomes.iter().any(Result::is_ok), "{outcomes:?}");
        for (to, outcome) in [one, other].into_iter().zip(outcomes) {
            match outcome {
                Ok(leader) => assert_eq!(leader.id, to),
                outcome => assert!(not_transferred(outcome).1.is_some()),
            }
        }
        assert_eq!(server.children(PATH).len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_whose_session_ends_continues_in_its_next_one() {
    let (server, clients) = setup::<4>().await;
    let line = three(&server, &clients).await;
    server.freeze_client(&clients[1]);
    let expires = async {
        pending(&server, 1).await;
        server.expire_session(&clients[3]);
        tokio::time::sleep(SOON).await;
        server.thaw_client(&clients[1]);
    };
    let (outcome, ()) = join(transfer(&clients[3], PATH, "target", T), expires).await;
    assert_eq!(outcome.expect("transferred").path, node_of(&line[2]));
    leads(&line[2]).await;
}

/// The requests that were written are followed all the same; the leader is asked only as the last one.
#[tokio::test(start_paused = true)]
async fn a_caller_that_dies_leaves_a_leader_whatever_it_has_written() {
    for asks_leader in [false, true] {
        let (server, clients) = setup::<4>().await;
        let line = three(&server, &clients).await;
        let frozen = if asks_leader { 0 } else { 1 };
        server.freeze_client(&clients[frozen]);
        let client = clients[3].clone();
        let transferring = tokio::spawn(async move { transfer(&client, PATH, "target", T).await });
        let request = request_of(&node_of(&line[frozen]));
        within("it is asked", SOON, server.until(|| server.get(&request).is_some_and(|data| asks_to_resign(&data))))
            .await;
        transferring.abort();
        clients[3].close().await.expect("closed");
        server.thaw_client(&clients[frozen]);
        let (leader, behind) = if asks_leader { (2, "between") } else { (0, "target") };
        leads(&line[leader]).await;
        tokio::time::sleep(SOON).await;
        assert!(line[leader].has_leadership());
        let ids: Vec<String> = line[0].participants().await.expect("read").into_iter().map(|one| one.id).collect();
        assert_eq!((ids.len(), ids[1].as_str()), (3, behind), "{ids:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn those_that_join_or_leave_meanwhile_do_not_matter() {
    let (server, clients) = setup::<6>().await;
    let line = revocable_line(&server, &clients, &["leader", "between", "leaves", "target"]).await;
    server.freeze_client(&clients[1]);
    let joins = async {
        pending(&server, 1).await;
        let late = latch(&clients[4], "late");
        waits(&late).await;
        server.thaw_client(&clients[1]);
        late
    };
    let leaves = line[2].close();
    let ((outcome, late), left) = join(join(transfer(&clients[5], PATH, "target", T), joins), leaves).await;
    left.expect("closed");
    assert_eq!(outcome.expect("transferred").path, node_of(&line[3]));
    assert!(!late.has_leadership());
    line_becomes(&line[3], &["target", "late", "between", "leader"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_asked_to_resign_by_another_has_left() {
    let (server, clients) = setup::<4>().await;
    let line = three(&server, &clients).await;
    server.freeze_client(&clients[1]);
    let asks = async {
        pending(&server, 1).await;
        ask_to_resign(&clients[0], &node_of(&line[2])).await.expect("asked");
    };
    let (outcome, ()) = join(transfer(&clients[3], PATH, "target", T), asks).await;
    assert!(not_transferred(outcome).0.contains("has left its place"));
}

#[tokio::test(start_paused = true)]
async fn lost_replies_of_the_caller_change_nothing() {
    for (nth, loss) in [(0, Loss::Applied), (0, Loss::NotApplied), (1, Loss::Applied), (1, Loss::NotApplied)] {
        let (server, clients) = setup::<4>().await;
        let line = three(&server, &clients).await;
        let loses = async {
            server.until(|| server.count(&clients[3], Operation::Multi) == nth).await;
            server.lose_next_reply(&clients[3], Operation::Multi, loss);
        };
        let (outcome, ()) = join(transfer(&clients[3], PATH, "target", T), loses).await;
        assert_eq!(outcome.expect("transferred").path, node_of(&line[2]), "{nth} {loss:?}");
        assert_eq!(server.lost_replies(), 1);
        leads(&line[2]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_long_is_refused() {
    let server = TestingServer::start();
    make_directory(&server);
    let client = server.client().await.expect("a client");
    for _ in 0..1002 {
        server.create_by_hand(&format!("{PATH}/x-latch-"), "", CreateMode::PersistentSequential).expect("created");
    }
    let last = latch(&client, "last");
    waits(&last).await;
    let refused = transfer(&client, PATH, "last", WITHIN).await.expect_err("too long");
    assert!(
        refused.to_string().contains("1001 participants besides the leader") && refused.to_string().contains("1000"),
        "{refused}"
    );
}

/// A leader that does not run, the node of its requests, and a target behind it.
async fn frozen_leader(server: &TestingServer, clients: &[Client]) -> ([LeaderLatch; 2], String) {
    let leader = revocable(&clients[0], "leader", Duration::ZERO);
    let node = can_be_asked(server, &leader).await;
    let target = latch(&clients[1], "target");
    waits(&target).await;
    leads(&leader).await;
    server.freeze_client(&clients[0]);
    ([leader, target], node)
}

#[tokio::test(start_paused = true)]
async fn a_request_of_another_client_is_not_withdrawn() {
    for asked_first in [true, false] {
        let (server, clients) = setup::<4>().await;
        let ([leader, target], node) = frozen_leader(&server, &clients).await;
        let asks = async {
            if !asked_first {
                pending(&server, 1).await;
            }
            assert!(ask_to_resign(&clients[2], &node).await.expect("asked"));
        };
        let transferring = async {
            if asked_first {
                pending(&server, 1).await;
            }
            transfer(&clients[3], PATH, "target", WITHIN).await
        };
        let (outcome, ()) = join(transferring, asks).await;
        let (why, leads_now) = not_transferred(outcome);
        assert!(why.contains(&node) && leads_now.as_deref() == Some("leader"), "{why}");
        assert_eq!(server.get(&request_of(&node)).as_deref(), Some(&b"resign"[..]), "asked first: {asked_first}");
        server.thaw_client(&clients[0]);
        leads(&target).await;
        waits(&leader).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_transfers_to_a_leader_that_does_not_answer_none_withdraws_the_request_of_the_other() {
    let (server, clients) = setup::<4>().await;
    let ([leader, target], node) = frozen_leader(&server, &clients).await;
    let second = async {
        pending(&server, 1).await;
        let before = server.get(&request_of(&node));
        not_transferred(transfer(&clients[3], PATH, "target", WITHIN / 2).await);
        assert_eq!(server.get(&request_of(&node)), before, "that of the first");
    };
    let (outcome, ()) = join(transfer(&clients[2], PATH, "target", WITHIN), second).await;
    not_transferred(outcome);
    assert_eq!(server.get(&request_of(&node)).as_deref(), Some(&b""[..]));
    server.thaw_client(&clients[0]);
    tokio::time::sleep(SOON).await;
    assert!(leader.has_leadership() && !target.has_leadership());
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_reply_is_lost_is_withdrawn_too() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, clients) = setup::<4>().await;
        let ([leader, target], node) = frozen_leader(&server, &clients).await;
        server.lose_next_reply(&clients[3], Operation::Multi, loss);
        not_transferred(transfer(&clients[3], PATH, "target", WITHIN).await);
        assert_eq!(server.lost_replies(), 1);
        assert_eq!(server.get(&request_of(&node)).as_deref(), Some(&b""[..]), "{loss:?}");
        server.thaw_client(&clients[0]);
        tokio::time::sleep(SOON).await;
        assert!(leader.has_leadership() && !target.has_leadership());
    }
}

/// One that leaves has no node of requests either.
#[tokio::test(start_paused = true)]
async fn one_that_leaves_while_the_line_is_read_is_not_taken_for_one_that_cannot_be_asked() {
    let (server, clients) = setup::<4>().await;
    let line = three(&server, &clients).await;
    let between = node_of(&line[1]);
    let leaves = async {
        // The participants are listed first, and then the line.
        server.until(|| server.count(&clients[3], Operation::List) == 2).await;
        server.delete_by_hand(&between).expect("it exists");
        server.delete_by_hand(&request_of(&between)).expect("it exists");
        server.count(&clients[3], Operation::GetMany)
    };
    let (outcome, read) = join(transfer(&clients[3], PATH, "target", WITHIN), leaves).await;
    assert_eq!(read, 1, "the requests were not read yet");
    assert_eq!(outcome.expect("transferred").path, node_of(&line[2]));
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_asked_any_more_ends_the_transfer_and_the_leader_is_named() {
    let (server, clients) = setup::<4>().await;
    let line = three(&server, &clients).await;
    let (leader, node) = (leads(&line[0]).await, node_of(&line[0]));
    server.freeze_client(&clients[0]);
    server.freeze_client(&clients[1]);
    let is_deleted = async {
        pending(&server, 1).await;
        server.delete_by_hand(&request_of(&node)).expect("it exists");
        server.thaw_client(&clients[1]);
    };
    let (outcome, ()) = join(transfer(&clients[3], PATH, "target", WITHIN), is_deleted).await;
    let error = outcome.expect_err("the leader cannot be asked");
    assert!(
        matches!(&error, ResignError::Blocked { participants, leader: Some(leader), .. }
            if *participants == [node.clone()] && leader.id == "leader"),
        "{error}"
    );
    server.thaw_client(&clients[0]);
    tokio::time::sleep(SOON).await;
    assert!(leader.is_held());
}
