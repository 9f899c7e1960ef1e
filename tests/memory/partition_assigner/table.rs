//! What happens when members come and go, and when operators change the set or the settings.

use std::collections::BTreeSet;

use futures::StreamExt;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::partition_assigner::{Event, PartitionAssigner, Partitions, Strategy, drain};

use super::fixture::{BASE, eager, held, hold, hold_within, joined, setup, until};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn members_that_come_and_go_share_the_partitions() {
    let (server, clients) = setup(4).await;
    let one = joined(&clients[0], "one").await;
    hold(&server, &[&one], &[12]).await;
    let two = joined(&clients[1], "two").await;
    hold(&server, &[&one, &two], &[6, 6]).await;
    let three = joined(&clients[2], "three").await;
    hold(&server, &[&one, &two, &three], &[4, 4, 4]).await;
    let four = joined(&clients[3], "four").await;
    hold(&server, &[&one, &two, &three, &four], &[3, 3, 3, 3]).await;
    one.leave().await;
    hold(&server, &[&two, &three, &four], &[4, 4, 4]).await;
    clients[3].close().await.expect("closed");
    hold(&server, &[&two, &three], &[6, 6]).await;
    two.leave().await;
    three.leave().await;
    let left = ["members", "assignments", "owned", "leader"].map(|dir| server.children(&format!("{BASE}/{dir}")).len());
    assert_eq!(left, [0; 4]);
}

/// A member that stays keeps what it has, except what a newcomer gets.
#[tokio::test(start_paused = true)]
async fn only_what_must_move_moves() {
    let (server, clients) = setup(3).await;
    let one = joined(&clients[0], "one").await;
    let two = joined(&clients[1], "two").await;
    hold(&server, &[&one, &two], &[6, 6]).await;
    let tokens = |member: &PartitionAssigner| -> BTreeSet<(String, i64)> {
        member.assigned().iter().map(|one| (one.id().to_owned(), one.fencing_token())).collect()
    };
    let before = [tokens(&one), tokens(&two)];
    let three = joined(&clients[2], "three").await;
    hold(&server, &[&one, &two, &three], &[4, 4, 4]).await;
    for (member, before) in [&one, &two].into_iter().zip(&before) {
        assert!(tokens(member).is_subset(before), "what stays is held without an interruption");
    }
    let before = [tokens(&one), tokens(&two)];
    three.leave().await;
    hold(&server, &[&one, &two], &[6, 6]).await;
    for (member, before) in [&one, &two].into_iter().zip(&before) {
        assert!(tokens(member).is_superset(before));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_names_the_partitions_and_operators_change_it() {
    let (server, clients) = setup(1).await;
    server.create_by_hand("/list", "", CreateMode::Persistent).expect("created");
    let member = eager(&clients[0], "one").partitions(Partitions::node("/list")).join().await.expect("it joins");
    let mut events = member.events();
    hold(&server, &[&member], &[0]).await;
    server.set_data_by_hand("/list", "0..3\n7\n").expect("set");
    hold(&server, &[&member], &[4]).await;
    assert_eq!(held(&member), [0, 1, 2, 7]);
    let token = member.assigned()[1].fencing_token();
    server.set_data_by_hand("/list", "7\n7\n").expect("set");
    // The empty node was reported before.
    let invalid = async {
        loop {
            match events.next().await {
                Some(Event::PartitionsInvalid { why }) if why.contains("occurs twice") => return why,
                _ => {}
            }
        }
    };
    let why = within("it is reported", SOON, invalid).await;
    assert!(why.contains("/list") && why.contains("\"7\""), "{why}");
    hold(&server, &[&member], &[4]).await;
    server.set_data_by_hand("/list", "1\n8").expect("set");
    hold(&server, &[&member], &[2]).await;
    assert_eq!(held(&member), [1, 8]);
    assert_eq!(member.assigned()[0].fencing_token(), token, "it was held all the time");
    server.delete_by_hand("/list").expect("deleted");
    hold(&server, &[&member], &[2]).await;
}

#[tokio::test(start_paused = true)]
async fn operators_pin_drain_and_undo_it() {
    let (server, clients) = setup(3).await;
    let one = joined(&clients[0], "one").await;
    let two = joined(&clients[1], "two").await;
    hold(&server, &[&one, &two], &[6, 6]).await;
    let mine = held(&one)[0];
    let set = |text: String| server.set_data_by_hand(&format!("{BASE}/config"), text).expect("set");
    set(format!(r#"{{"pins":{{"{mine}":"two"}},"note":"kept"}}"#));
    until("it moves", || held(&two).contains(&mine)).await;
    hold(&server, &[&one, &two], &[6, 6]).await;
    set(r#"{"drained":["two"]}"#.to_owned());
    hold(&server, &[&one, &two], &[12, 0]).await;
    // What is not valid changes nothing.
    let mut events = one.events();
    set("{".to_owned());
    let invalid = async {
        loop {
            if let Some(Event::ConfigInvalid { why }) = events.next().await {
                return why;
            }
        }
    };
    let why = within("it is reported", SOON, invalid).await;
    assert!(why.contains("/config") && why.contains('{'), "{why}");
    hold(&server, &[&one, &two], &[12, 0]).await;
    let three = joined(&clients[2], "three").await;
    hold(&server, &[&one, &two, &three], &[6, 0, 6]).await;
    set("{}".to_owned());
    hold(&server, &[&one, &two, &three], &[4, 4, 4]).await;
}

#[tokio::test(start_paused = true)]
async fn capacities_leave_partitions_unassigned_and_that_is_reported() {
    let (server, clients) = setup(2).await;
    let one = eager(&clients[0], "one").capacity(5).join().await.expect("it joins");
    hold(&server, &[&one], &[5]).await;
    let mut events = one.events();
    let unassigned = async {
        loop {
            if let Some(Event::Unassigned { partitions }) = events.next().await {
                return partitions;
            }
        }
    };
    let two = eager(&clients[1], "two").capacity(3).join().await.expect("it joins");
    assert_eq!(within("it is reported", SOON, unassigned).await, 4);
    hold(&server, &[&one, &two], &[5, 3]).await;
}

/// Only candidates lead, and a member that is none needs no partitions.
#[tokio::test(start_paused = true)]
async fn a_member_that_never_leads_gets_partitions_too() {
    let (server, clients) = setup(2).await;
    let two = PartitionAssigner::builder(&clients[1], BASE).candidate(false).join().await.expect("it joins");
    let mut events = two.events();
    let undecided = async {
        loop {
            if let Some(Event::Undecided { member }) = events.next().await {
                return member;
            }
        }
    };
    assert_eq!(within("it is reported", SOON * 6, undecided).await, two.id());
    let one = joined(&clients[0], "one").await;
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
    assert!(one.is_leader() && !two.is_leader());
}

/// What a newcomer is to get counts, even while others still work on it.
#[tokio::test(start_paused = true)]
async fn a_newcomer_is_settled_when_others_have_handed_over() {
    let (server, clients) = setup(2).await;
    let one = eager(&clients[0], "one").grace_period(SOON * 2).join().await.expect("it joins");
    hold(&server, &[&one], &[12]).await;
    let two = joined(&clients[1], "two").await;
    within("it is settled", SOON * 3, two.settled()).await.expect("it is a member");
    assert_eq!((held(&one).len(), held(&two).len()), (6, 6));
}

/// A function that knows no capacities gets none of the drained members.
#[tokio::test(start_paused = true)]
async fn a_drain_does_not_stop_a_strategy_that_ignores_capacities() {
    let (server, clients) = setup(3).await;
    let in_turn =
        Strategy::custom(|partitions, members| (0..partitions.len()).map(|at| at.checked_rem(members.len())).collect());
    let join =
        async |at: usize, id: &str| eager(&clients[at], id).strategy(in_turn.clone()).join().await.expect("it joins");
    let (one, two, three) = (join(0, "one").await, join(1, "two").await, join(2, "three").await);
    hold_within(&server, T, &[&one, &two, &three], &[4, 4, 4]).await;
    drain(&clients[0], BASE, "two").await.expect("drained");
    hold_within(&server, T, &[&one, &two, &three], &[6, 0, 6]).await;
    clients[2].close().await.expect("closed");
    hold_within(&server, T, &[&one, &two], &[12, 0]).await;
}
