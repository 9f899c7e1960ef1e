//! Members that vanish and come back, and those that do not.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use zookeeper_recipes::partition_assigner::{Event, PartitionAssigner, PartitionAssignerBuilder, Partitions, pin};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{BASE, eager, held, hold, hold_within, joined, nodes, setup, until};
use crate::fixture::{SOON, T, within};

const DELAY: Duration = Duration::from_secs(60);

fn patient(client: &Client, id: &str) -> PartitionAssignerBuilder {
    eager(client, id).rebalance_delay(DELAY)
}

/// Two members, the first of which leads.
async fn two(server: &TestingServer, clients: &[Client]) -> [PartitionAssigner; 2] {
    let one = patient(&clients[0], "one").join().await.expect("it joins");
    let two = patient(&clients[1], "two").join().await.expect("it joins");
    hold(server, &[&one, &two], &[6, 6]).await;
    [one, two]
}

#[tokio::test(start_paused = true)]
async fn a_restart_within_the_delay_moves_nothing_also_when_the_leader_restarts() {
    for restarts in [0, 1] {
        for is_killed in [true, false] {
            let (server, clients) = setup(3).await;
            let members = two(&server, &clients).await;
            let before: Vec<_> = members.iter().map(held).collect();
            let mut tokens = BTreeSet::new();
            tokens.extend(members[restarts].assigned().iter().map(|one| one.fencing_token()));
            if is_killed {
                clients[restarts].close().await.expect("closed");
            } else {
                members[restarts].leave_for_restart().await;
            }
            tokio::time::sleep(DELAY / 2).await;
            let (stays, id) = (&members[1 - restarts], ["one", "two"][restarts]);
            assert_eq!(held(stays), before[1 - restarts], "{:#?}", nodes(&server));
            let again = patient(&clients[2], id).join().await.expect("it joins");
            hold(&server, &[stays, &again], &[6, 6]).await;
            assert_eq!((held(&again), held(stays)), (before[restarts].clone(), before[1 - restarts].clone()));
            assert!(again.assigned().iter().all(|one| tokens.iter().all(|old| one.fencing_token() > *old)));
        }
    }
}

/// An outage ends all sessions. The members come back one after the other, and the first of them leads.
#[tokio::test(start_paused = true)]
async fn members_that_all_lose_their_sessions_get_what_they_had() {
    let (server, clients) = setup(4).await;
    let mut members = Vec::new();
    for (client, id) in clients.iter().zip(["one", "two", "three", "four"]) {
        let builder = eager(client, id).debounce(Duration::from_millis(200), SOON);
        members.push(builder.join().await.expect("it joins"));
    }
    let all: Vec<_> = members.iter().collect();
    hold(&server, &all, &[3, 3, 3, 3]).await;
    let before: Vec<_> = members.iter().map(held).collect();
    for client in &clients {
        assert!(server.expire_session(client));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(SOON).await;
    hold(&server, &all, &[3, 3, 3, 3]).await;
    assert_eq!(members.iter().map(held).collect::<Vec<_>>(), before);
}

/// Several members restart at once, and each gets what it had.
#[tokio::test(start_paused = true)]
async fn members_that_restart_together_get_what_they_had() {
    let (server, clients) = setup(5).await;
    let one = patient(&clients[0], "one").join().await.expect("it joins");
    let two = patient(&clients[1], "two").join().await.expect("it joins");
    let three = patient(&clients[2], "three").join().await.expect("it joins");
    hold(&server, &[&one, &two, &three], &[4, 4, 4]).await;
    let before = [held(&two), held(&three)];
    for client in &clients[1..3] {
        client.close().await.expect("closed");
    }
    tokio::time::sleep(SOON * 5).await;
    // In the other order.
    let three = patient(&clients[3], "three").join().await.expect("it joins");
    let two = patient(&clients[4], "two").join().await.expect("it joins");
    three.settled().await.expect("it is a member");
    assert_eq!(held(&three), before[1], "it is settled when it has everything");
    hold(&server, &[&one, &two, &three], &[4, 4, 4]).await;
    assert_eq!([held(&two), held(&three)], before);
}

#[tokio::test(start_paused = true)]
async fn after_the_delay_others_get_what_it_had_and_its_record_is_deleted() {
    let (server, clients) = setup(2).await;
    let [one, _two] = two(&server, &clients).await;
    clients[1].close().await.expect("closed");
    tokio::time::sleep(DELAY - SOON).await;
    assert_eq!(held(&one).len(), 6);
    hold(&server, &[&one], &[12]).await;
    assert_eq!(server.children(&format!("{BASE}/assignments")), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_is_not_waited_for() {
    let (server, clients) = setup(2).await;
    let [one, two] = two(&server, &clients).await;
    two.leave().await;
    hold(&server, &[&one], &[12]).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_can_end_the_delay() {
    let (server, clients) = setup(2).await;
    let [one, _two] = two(&server, &clients).await;
    clients[1].close().await.expect("closed");
    tokio::time::sleep(SOON).await;
    server.set_data_by_hand(&format!("{BASE}/config"), r#"{"rebalances":1}"#).expect("set");
    hold(&server, &[&one], &[12]).await;
}

/// What a vanished member had is not counted as free for a newcomer either.
#[tokio::test(start_paused = true)]
async fn a_newcomer_gets_nothing_of_what_is_reserved() {
    let (server, clients) = setup(4).await;
    let [one, _two] = two(&server, &clients).await;
    let mut events = one.events();
    clients[1].close().await.expect("closed");
    let absent = async {
        loop {
            if let Some(Event::Absent { member, partitions }) = events.next().await {
                return (member, partitions);
            }
        }
    };
    assert_eq!(within("it is reported", SOON, absent).await, ("two".to_owned(), 6));
    let three = patient(&clients[2], "three").join().await.expect("it joins");
    hold(&server, &[&one, &three], &[3, 3]).await;
    let again = patient(&clients[3], "two").join().await.expect("it joins");
    hold(&server, &[&one, &three, &again], &[4, 4, 4]).await;
}

/// A process that is restarted after a crash may be faster than the expiry of its old session.
#[tokio::test(start_paused = true)]
async fn a_member_whose_old_session_still_lives_waits_for_its_end() {
    let (server, clients) = setup(3).await;
    let one = joined(&clients[0], "one").await;
    let two = joined(&clients[1], "two").await;
    hold(&server, &[&one, &two], &[6, 6]).await;
    let before = held(&two);
    server.freeze_client(&clients[1]);
    let again = joined(&clients[2], "two").await;
    tokio::time::sleep(SOON).await;
    assert_eq!((held(&one).len(), held(&again).len()), (6, 0), "its earlier self may still work");
    hold_within(&server, T * 5, &[&one, &again], &[6, 6]).await;
    assert_eq!(held(&again), before);
    server.thaw_client(&clients[1]);
    hold_within(&server, T, &[&one, &two, &again], &[6, 0, 6]).await;
    again.leave().await;
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
}

/// A new registration obeys no record of an earlier one, even if it lists partitions.
#[tokio::test(start_paused = true)]
async fn what_was_assigned_to_an_earlier_registration_is_not_taken() {
    let (server, clients) = setup(1).await;
    for path in ["/jobs", BASE, &format!("{BASE}/assignments")] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("created");
    }
    let old = r#"{"member":"0123456789abcdef","assigned":["1","2"],"held":["1","2"],"claims":3}"#;
    server.create_by_hand(&format!("{BASE}/assignments/two"), old, CreateMode::Persistent).expect("created");
    let two = eager(&clients[0], "two").candidate(false).join().await.expect("it joins");
    tokio::time::sleep(SOON).await;
    assert!(two.assigned().is_empty() && server.children(&format!("{BASE}/owned")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_replaced_and_nothing_moves_without_need() {
    let (server, clients) = setup(3).await;
    let one = joined(&clients[0], "one").await;
    let two = joined(&clients[1], "two").await;
    let three = joined(&clients[2], "three").await;
    hold(&server, &[&one, &two, &three], &[4, 4, 4]).await;
    let before = [held(&two), held(&three)];
    server.expire_session(&clients[0]);
    until("another leads", || two.is_leader()).await;
    until("all is shared", || held(&two).len() + held(&three).len() == 12 || held(&one).len() == 4).await;
    for (member, before) in [&two, &three].into_iter().zip(&before) {
        assert!(before.iter().all(|partition| held(member).contains(partition)));
    }
}

/// What a member was to hand over when it vanished is not reserved for it, and another member gets it.
#[tokio::test(start_paused = true)]
async fn what_was_on_its_way_is_not_reserved() {
    let (server, clients) = setup(2).await;
    let one = patient(&clients[0], "one").join().await.expect("it joins");
    let two = patient(&clients[1], "two").grace_period(T * 6).join().await.expect("it joins");
    hold(&server, &[&one, &two], &[6, 6]).await;
    let moves = held(&two)[0];
    pin(&clients[0], BASE, &moves.to_string(), "one").await.expect("pinned");
    tokio::time::sleep(SOON).await;
    assert!(two.assigned()[0].is_revoked());
    clients[1].close().await.expect("closed");
    hold(&server, &[&one], &[6]).await;
    assert!(held(&one).contains(&moves), "{:#?}", nodes(&server));
}

/// The set shrinks and grows again while partitions are reserved. In the end each has an owner.
#[tokio::test(start_paused = true)]
async fn a_set_that_shrinks_and_grows_while_partitions_are_reserved() {
    let (server, clients) = setup(2).await;
    server.create_by_hand("/list", "0..12", CreateMode::Persistent).expect("created");
    let listed = |client, id| patient(client, id).partitions(Partitions::node("/list")).join();
    let one = listed(&clients[0], "one").await.expect("it joins");
    let two = listed(&clients[1], "two").await.expect("it joins");
    hold(&server, &[&one, &two], &[6, 6]).await;
    clients[1].close().await.expect("closed");
    // Nothing is left in the set of what the absent member had.
    let shrunk = held(&one)[0].to_string();
    for list in [shrunk.as_str(), "0..12"] {
        tokio::time::sleep(SOON).await;
        server.set_data_by_hand("/list", list).expect("set");
    }
    hold_within(&server, DELAY + T, &[&one], &[12]).await;
}
