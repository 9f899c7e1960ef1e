//! Priorities in failures: lost replies, lost sessions, stopped processes, missing permissions, nodes deleted by hand.

use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::leader_latch::{LeaderLatch, ask_to_resign, transfer};
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{PATH, leads, leads_in_the_end, line_becomes, node_of, request_of, setup, waits};
use super::ranked::{leader, line_becomes_next, ranked, revocable};
use crate::fixture::log::Log;
use crate::fixture::{SOON, T, within};

const LOSSES: [Loss; 2] = [Loss::Applied, Loss::NotApplied];

/// A leader that can be asked, with the priority 5, and a better one that is about to enter.
async fn one_leads(grace: Duration) -> (TestingServer, [Client; 2], LeaderLatch) {
    let (server, clients) = setup::<2>().await;
    let worse = revocable(&server, &clients[0], ("worse", 5), grace).await;
    leads(&worse).await;
    (server, clients, worse)
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_reply_is_lost_is_made_once_more_at_most() {
    for loss in LOSSES {
        let (server, clients, worse) = one_leads(Duration::ZERO).await;
        server.lose_next_reply(&clients[1], Operation::Multi, loss);
        let better = ranked(&clients[1], "better", 1).await;
        leads_in_the_end(&better).await;
        assert_eq!(server.lost_replies(), 1);
        line_becomes(&better, &["better", "worse"]).await;
        tokio::time::sleep(SOON).await;
        assert!(better.has_leadership() && server.children(PATH).len() == 2, "{loss:?}");
        assert_eq!(clients[1].request_counts().multis, if loss == Loss::Applied { 1 } else { 2 });
        assert!(!better.participants().await.expect("read")[1].gives_way, "{loss:?}");
        drop(worse);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_back_whose_delete_has_no_answer_leaves_one_node() {
    for loss in LOSSES {
        let (server, clients) = setup::<3>().await;
        let leader = leader(&clients[0]).await;
        let worse = ranked(&clients[1], "worse", 5).await;
        server.lose_next_reply(&clients[1], Operation::Delete, loss);
        let better = ranked(&clients[2], "better", 1).await;
        server.until(|| server.lost_replies() == 1).await;
        within("it is in line again", T, line_becomes(&leader, &["leader", "better", "worse"])).await;
        leader.close().await.expect("closed");
        leads(&better).await;
        waits(&worse).await;
        assert_eq!(server.children(PATH).len(), 2, "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_in_line_compares_again_after_its_connection_or_its_session_was_lost() {
    for expires in [false, true] {
        let (server, clients) = setup::<3>().await;
        let leader = leader(&clients[0]).await;
        let worse = ranked(&clients[1], "worse", 5).await;
        server.refuse(&clients[1]);
        server.disconnect(&clients[1]);
        let better = ranked(&clients[2], "better", 1).await;
        if expires {
            server.expire_session(&clients[1]);
        }
        server.heal();
        within("the best is next", T * 2, line_becomes(&leader, &["leader", "better", "worse"])).await;
        leader.close().await.expect("closed");
        leads(&better).await;
        waits(&worse).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_better_one_that_is_stopped_leads_when_it_is_back_or_not_at_all() {
    for stopped in [T / 2, Duration::from_secs(60)] {
        let (server, clients) = setup::<3>().await;
        let leader = leader(&clients[0]).await;
        let worse = ranked(&clients[1], "worse", 5).await;
        let better = ranked(&clients[2], "better", 1).await;
        line_becomes(&leader, &["leader", "better", "worse"]).await;
        server.freeze_client(&clients[2]);
        leader.close().await.expect("closed");
        tokio::time::sleep(stopped).await;
        // It is the first until its session ends.
        assert_eq!(worse.has_leadership(), stopped > T);
        server.thaw_client(&clients[2]);
        if stopped > T {
            // It is new in the line, and cannot ask.
            tokio::time::sleep(SOON).await;
            assert!(worse.has_leadership() && !better.has_leadership());
        } else {
            leads_in_the_end(&better).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_asked_as_soon_as_it_can_be_asked() {
    let (server, clients, worse) = one_leads(Duration::ZERO).await;
    // As if it had not come to create its node of requests yet.
    server.freeze_client(&clients[0]);
    let request = request_of(&node_of(&worse));
    server.delete_by_hand(&request).expect("it exists");
    let better = ranked(&clients[1], "better", 1).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(clients[1].request_counts().multis, 0);
    server.thaw_client(&clients[0]);
    within("it leads in the end", T, better.wait_for_leadership()).await.expect("it leads");
    assert_eq!(clients[1].request_counts().multis, 1);
}

#[tokio::test(start_paused = true)]
async fn the_request_of_an_operator_comes_first_and_is_not_repeated() {
    let (server, clients, worse) = one_leads(Duration::MAX).await;
    let node = node_of(&worse);
    server.set_data_by_hand(&request_of(&node), "resign").expect("it exists");
    let better = ranked(&clients[1], "better", 1).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(clients[1].request_counts().multis, 0);
    let leadership = leads(&worse).await;
    within("it is told", SOON, leadership.on_revoke()).await.expect("it leads");
    worse.resign(&leadership).await;
    leads(&better).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_who_asks_after_a_participant_has_the_leader_give_way() {
    for by_transfer in [false, true] {
        let (server, clients, worse) = one_leads(Duration::MAX).await;
        let better = ranked(&clients[1], "better", 1).await;
        let leadership = leads(&worse).await;
        within("it is told", SOON, leadership.on_revoke()).await.expect("it leads");
        // The one that has asked is gone before the leader has resigned, and another one takes its place.
        better.close().await.expect("closed");
        let worst = revocable(&server, &clients[1], ("worst", 9), Duration::ZERO).await;
        let asked = async {
            if by_transfer {
                transfer(&clients[1], PATH, "worst", T).await.expect("transferred");
            } else {
                assert!(ask_to_resign(&clients[1], &node_of(&worse)).await.expect("asked"));
            }
        };
        let resigns = async {
            tokio::time::sleep(SOON / 2).await;
            worse.resign(&leadership).await;
        };
        tokio::join!(asked, resigns);
        let leadership = leads(&worst).await;
        line_becomes(&worst, &["worst", "worse"]).await;
        tokio::time::sleep(T * 3).await;
        assert!(leadership.is_held() && worst.participants().await.expect("read")[1].gives_way, "{by_transfer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_deleted_by_hand_is_made_again() {
    let (server, clients, worse) = one_leads(Duration::ZERO).await;
    server.freeze_client(&clients[0]);
    let better = ranked(&clients[1], "better", 1).await;
    server.until(|| clients[1].request_counts().multis == 1).await;
    server.delete_by_hand(&request_of(&node_of(&worse))).expect("it exists");
    tokio::time::sleep(SOON).await;
    server.thaw_client(&clients[0]);
    within("it leads in the end", T, better.wait_for_leadership()).await.expect("it leads");
    assert_eq!(clients[1].request_counts().multis, 2);
}

#[tokio::test(start_paused = true)]
async fn after_a_reconnect_those_that_wait_watch_two_nodes_and_list_nothing() {
    let (server, clients) = setup::<2>().await;
    let leader = leader(&clients[0]).await;
    let mut line = Vec::new();
    for number in 0..20 {
        line.push(ranked(&clients[1], &number.to_string(), 5).await);
    }
    tokio::time::sleep(SOON).await;
    let before = clients[1].request_counts();
    server.disconnect(&clients[1]);
    tokio::time::sleep(T).await;
    let sent = clients[1].request_counts() - before;
    // The next in line lists the line with a watch.
    assert_eq!(sent.lists, 0, "{sent:?}");
    leader.close().await.expect("closed");
    leads(&line[0]).await;
    // All learn in their turn that they are next.
    let better = ranked(&clients[0], "better", 1).await;
    line_becomes_next(&server, "better").await;
    line[0].close().await.expect("closed");
    leads(&better).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_request_is_overwritten() {
    let (server, clients, worse) = one_leads(Duration::ZERO).await;
    server.set_data_by_hand(&request_of(&node_of(&worse)), "please").expect("it exists");
    let better = ranked(&clients[1], "better", 1).await;
    leads(&better).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_may_not_ask_still_lets_a_better_one_pass() {
    let (server, clients) = setup::<3>().await;
    let leader = revocable(&server, &clients[0], ("leader", 9), Duration::ZERO).await;
    let request = request_of(&node_of(&leader));
    server.deny(&request);
    let _worse = ranked(&clients[1], "worse", 5).await;
    // The delays have grown by now.
    tokio::time::sleep(Duration::from_secs(120)).await;
    let better = ranked(&clients[2], "better", 1).await;
    line_becomes(&better, &["leader", "better", "worse"]).await;
    leader.close().await.expect("closed");
    leads(&better).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_may_not_ask_warns_with_growing_delays_and_leads_in_its_turn() {
    let (log, subscriber) = Log::new(LevelFilter::WARN);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let (server, clients, worse) = one_leads(Duration::ZERO).await;
    server.deny(&request_of(&node_of(&worse)));
    let better = ranked(&clients[1], "better", 1).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let warnings = log.lines("the next in line cannot act on its priority");
    assert!((3..=12).contains(&warnings.len()), "the delays grow: {warnings:#?}");
    assert!(warnings[0].contains("NoAuth") && warnings[0].contains(PATH), "{warnings:#?}");
    assert!(worse.has_leadership());
    worse.close().await.expect("closed");
    leads(&better).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_deleted_by_hand_leave_each_participant_in_the_line() {
    let (server, clients) = setup::<3>().await;
    let leader = leader(&clients[0]).await;
    let worse = ranked(&clients[1], "worse", 5).await;
    let better = ranked(&clients[2], "better", 1).await;
    line_becomes(&leader, &["leader", "better", "worse"]).await;
    server.delete_by_hand(&node_of(&better)).expect("it exists");
    within("it is back", T, line_becomes(&leader, &["leader", "better", "worse"])).await;
    server.delete_by_hand(&node_of(&leader)).expect("it exists");
    leads(&better).await;
    // The former leader has no priority, and is behind the other.
    within("it is back", T, line_becomes(&better, &["better", "worse", "leader"])).await;
    waits(&worse).await;
}

#[tokio::test(start_paused = true)]
async fn names_of_others_that_look_like_priorities_do_no_harm() {
    let (server, clients) = setup::<2>().await;
    let leader = leader(&clients[0]).await;
    let waits_next = ranked(&clients[1], "next", 5).await;
    for name in
        ["_c_u-priority-1-latch-", "_c_u-priority-0000000001-lock-", "priority-0000000001", "_c_u-priority--latch-"]
    {
        server.create_by_hand(&format!("{PATH}/{name}"), "", CreateMode::PersistentSequential).expect("created");
    }
    tokio::time::sleep(SOON).await;
    assert_eq!(server.count(&clients[1], Operation::Delete), 0);
    leader.close().await.expect("closed");
    leads(&waits_next).await;
}
