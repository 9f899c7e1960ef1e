//! Transfers in a line with priorities.

use std::time::Duration;

use zookeeper_recipes::leader_latch::{ResignError, transfer};

use super::fixture::{PATH, can_be_asked, leads, line_becomes, node_of, request_of, setup};
use super::ranked::{line_becomes_next, ranked, revocable, revocable_line};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn a_transfer_to_one_with_a_higher_number_lasts() {
    let (server, clients) = setup::<5>().await;
    let line = revocable_line(&server, &clients, &[("a", 1), ("b", 1), ("z", 9), ("c", 2)]).await;
    let operator = &clients[4];
    let before = operator.request_counts().multis;
    let chosen = within("it is done", SOON, transfer(operator, PATH, "z", T)).await.expect("transferred");
    assert_eq!(chosen.priority, Some(9));
    // One transaction for the one behind the chosen one, one for that between, and one for the leader.
    assert_eq!(operator.request_counts().multis - before, 3);
    let leadership = leads(&line[2]).await;
    tokio::time::sleep(T * 10).await;
    assert!(leadership.is_held(), "those that were asked give way");
    let all = line[2].participants().await.expect("read");
    assert!(all.len() == 4 && all[1..].iter().all(|other| other.gives_way), "{all:?}");
    // And back.
    can_be_asked(&server, &line[2]).await;
    within("it is done", SOON, transfer(operator, PATH, "b", T)).await.expect("transferred");
    leads(&line[1]).await;
    // One that is new claims what it is due.
    line[1].close().await.expect("closed");
    let new = revocable(&server, operator, ("new", 0), Duration::ZERO).await;
    within("it leads in the end", SOON * 2, new.wait_for_leadership()).await.expect("it leads");
}

/// They make room for the chosen one, and for no other.
#[tokio::test(start_paused = true)]
async fn those_that_made_room_lead_as_their_priorities_say_once_the_chosen_one_is_gone() {
    for chosen_enters_again in [false, true] {
        let (server, clients) = setup::<5>().await;
        let line = revocable_line(&server, &clients, &[("a", 1), ("b", 2), ("c", 3), ("z", 9)]).await;
        within("it is done", SOON, transfer(&clients[4], PATH, "z", T)).await.expect("transferred");
        let leadership = leads(&line[3]).await;
        within("the best is next", SOON, line_becomes_next(&server, "a")).await;
        tokio::time::sleep(T * 3).await;
        assert!(leadership.is_held());
        if chosen_enters_again {
            line[3].resign(&leadership).await;
        } else {
            line[3].close().await.expect("closed");
        }
        let leadership = leads(&line[0]).await;
        within("the second is next", SOON, line_becomes_next(&server, "b")).await;
        tokio::time::sleep(T * 3).await;
        assert!(leadership.is_held());
    }
}

/// A request of a participant makes the leader resign during the transfer.
#[tokio::test(start_paused = true)]
async fn a_transfer_from_a_leader_that_a_participant_has_asked_lasts() {
    let (server, clients) = setup::<4>().await;
    let leader = revocable(&server, &clients[0], ("leader", 5), SOON * 2).await;
    leads(&leader).await;
    let better = revocable(&server, &clients[1], ("better", 1), Duration::ZERO).await;
    let chosen = revocable(&server, &clients[2], ("chosen", 9), Duration::ZERO).await;
    within("it is asked", SOON, leads(&leader).await.on_revoke()).await.expect("it leads");
    within("it is done", SOON * 4, transfer(&clients[3], PATH, "chosen", T)).await.expect("transferred");
    let leadership = leads(&chosen).await;
    tokio::time::sleep(T * 3).await;
    assert!(leadership.is_held() && !better.has_leadership());
    assert!(chosen.participants().await.expect("read")[1..].iter().all(|other| other.gives_way));
}

#[tokio::test(start_paused = true)]
async fn a_transfer_waits_for_those_behind_the_chosen_one_before_it_moves_any_other() {
    let (server, clients) = setup::<5>().await;
    let line = revocable_line(&server, &clients, &[("a", 1), ("b", 2), ("z", 9), ("c", 3)]).await;
    let before = [&line[0], &line[1], &line[2]].map(node_of);
    server.freeze_client(&clients[3]);
    let error = transfer(&clients[4], PATH, "z", T / 4).await.expect_err("one is stopped");
    assert!(matches!(&error, ResignError::Unanswered { participants, .. } if participants.len() == 1), "{error}");
    assert_eq!([&line[0], &line[1], &line[2]].map(node_of), before, "the others have not moved");
    server.thaw_client(&clients[3]);
    line_becomes(&line[0], &["a", "b", "z", "c"]).await;
    within("it is done", SOON, transfer(&clients[4], PATH, "z", T)).await.expect("transferred");
    leads(&line[2]).await;
}

/// That leader resigns in any case, but not for the transfer.
#[tokio::test(start_paused = true)]
async fn a_transfer_that_ends_early_leaves_no_request_at_a_leader_that_a_participant_has_asked() {
    let (server, clients) = setup::<4>().await;
    let leader = revocable(&server, &clients[0], ("leader", 5), T * 3).await;
    let better = revocable(&server, &clients[1], ("better", 1), Duration::MAX).await;
    let chosen = ranked(&clients[2], "chosen", 9).await;
    let leadership = leads(&leader).await;
    within("it is asked", SOON, leadership.on_revoke()).await.expect("it leads");
    server.freeze_client(&clients[1]);
    let error = transfer(&clients[3], PATH, "chosen", T / 4).await.expect_err("one is stopped");
    let asked = [&leader, &better].map(node_of);
    assert!(matches!(&error, ResignError::Unanswered { participants, .. } if **participants == asked), "{error}");
    for node in &asked {
        assert_eq!(server.get(&request_of(node)).as_deref(), Some(&b""[..]), "withdrawn");
    }
    drop(chosen);
}

/// Neither to the one that the first transfer had chosen, nor to none.
#[tokio::test(start_paused = true)]
async fn a_leader_that_two_transfers_ask_gives_way_to_the_one_of_the_second() {
    let (server, clients) = setup::<4>().await;
    let leader = revocable(&server, &clients[0], ("leader", 1), T * 3).await;
    let first = revocable(&server, &clients[1], ("first", 9), Duration::ZERO).await;
    let second = revocable(&server, &clients[2], ("second", 9), Duration::ZERO).await;
    leads(&leader).await;
    let error = transfer(&clients[3], PATH, "first", T / 4).await.expect_err("its grace period is longer");
    assert!(matches!(error, ResignError::Unanswered { .. }), "{error}");
    first.close().await.expect("closed");
    within("it is done", T * 4, transfer(&clients[3], PATH, "second", T * 4)).await.expect("transferred");
    let leadership = leads(&second).await;
    line_becomes(&second, &["second", "leader"]).await;
    tokio::time::sleep(T * 3).await;
    assert!(leadership.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_its_node_before_it_has_resigned_gives_way_all_the_same() {
    for expires in [false, true] {
        let (server, clients) = setup::<3>().await;
        let leader = revocable(&server, &clients[0], ("leader", 1), T * 3).await;
        let chosen = revocable(&server, &clients[1], ("chosen", 9), Duration::ZERO).await;
        let leadership = leads(&leader).await;
        let node = node_of(&leader);
        let loses_it = async {
            within("it is told", SOON, leadership.on_revoke()).await.expect("it leads");
            if expires {
                server.expire_session(&clients[0]);
            } else {
                server.delete_by_hand(&node).expect("it exists");
            }
        };
        let (transferred, ()) = tokio::join!(transfer(&clients[2], PATH, "chosen", T), loses_it);
        transferred.expect("transferred");
        let leadership = leads(&chosen).await;
        within("it is back", T, line_becomes(&chosen, &["chosen", "leader"])).await;
        tokio::time::sleep(T * 3).await;
        assert!(leadership.is_held(), "{expires}");
    }
}

/// Those that have made room for it already give way to the leader too.
#[tokio::test(start_paused = true)]
async fn after_a_transfer_that_fails_the_leader_of_the_one_before_leads_on() {
    let (server, clients) = setup::<4>().await;
    let better = revocable(&server, &clients[0], ("better", 1), Duration::ZERO).await;
    let leader = revocable(&server, &clients[1], ("leader", 9), T * 3).await;
    within("it is done", SOON, transfer(&clients[3], PATH, "leader", T)).await.expect("transferred");
    let leadership = leads(&leader).await;
    let chosen = ranked(&clients[2], "chosen", 9).await;
    can_be_asked(&server, &better).await;
    server.freeze_client(&clients[1]);
    transfer(&clients[3], PATH, "chosen", T / 8).await.expect_err("the leader is stopped");
    server.thaw_client(&clients[1]);
    chosen.close().await.expect("closed");
    line_becomes(&leader, &["leader", "better"]).await;
    tokio::time::sleep(T * 6).await;
    assert!(leadership.is_held());
}

#[tokio::test(start_paused = true)]
async fn one_that_has_resigned_still_gives_way_to_all_after_a_transfer_has_moved_it() {
    let (server, clients) = setup::<4>().await;
    let resigned = revocable(&server, &clients[0], ("resigned", 1), Duration::ZERO).await;
    let leader = revocable(&server, &clients[1], ("leader", 5), Duration::ZERO).await;
    resigned.resign(&leads(&resigned).await).await;
    leads(&leader).await;
    can_be_asked(&server, &resigned).await;
    let chosen = ranked(&clients[2], "chosen", 9).await;
    within("it is done", SOON, transfer(&clients[3], PATH, "chosen", T)).await.expect("transferred");
    line_becomes(&chosen, &["chosen", "resigned", "leader"]).await;
    let nodes = [&resigned, &leader].map(node_of);
    assert!(nodes[0].contains("-gives-way-0000000001-latch-"), "{nodes:?}");
    assert!(nodes[1].contains("-gives-way-0000000005-to-"), "{nodes:?}");
}
