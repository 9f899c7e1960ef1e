//! The budget: requests of each step.

use std::time::Duration;

use zookeeper_recipes::partition_assigner::PartitionAssigner;
use zookeeper_recipes::testing::Operation;

use super::fixture::{BASE, eager, hold, hold_within, joined, setup};
use crate::fixture::{SOON, T, requests, within};

fn count(requests: &[Operation], of: Operation) -> usize {
    requests.iter().filter(|operation| **operation == of).count()
}

/// A member that comes and gets half of what another has: the newcomer registers, the leader writes twice (what is
/// revoked, what is granted), and each member reads and answers once.
#[tokio::test(start_paused = true)]
async fn a_hand_over_costs_two_writes_of_the_leader_and_one_of_each_member() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0], "one").await;
    hold(&server, &[&one], &[12]).await;
    // The newcomer is no candidate, so that no election is counted.
    let two = eager(&clients[1], "two").candidate(false).debounce(Duration::ZERO, Duration::ZERO);
    server.clear_records();
    let two = within("it joins", SOON, two.join()).await.expect("it joins");
    hold(&server, &[&one, &two], &[6, 6]).await;
    let sent = requests(&server);
    assert_eq!(count(&sent, Operation::Multi), 4, "{sent:?}");
    assert!(sent.len() <= 30, "{} requests: {sent:?}", sent.len());
}

/// Nothing is sent while nothing happens, except heartbeats.
#[tokio::test(start_paused = true)]
async fn nothing_polls() {
    let (server, clients) = setup(3).await;
    let one = joined(&clients[0], "one").await;
    let two = joined(&clients[1], "two").await;
    let three = joined(&clients[2], "three").await;
    hold(&server, &[&one, &two, &three], &[4, 4, 4]).await;
    tokio::time::sleep(SOON).await;
    server.clear_records();
    tokio::time::sleep(T * 10).await;
    assert_eq!(requests(&server), []);
}

/// A thousand partitions are taken in one transaction, ten thousand in ten.
#[tokio::test(start_paused = true)]
async fn many_partitions_are_taken_together() {
    let (server, clients) = setup(1).await;
    server.clear_records();
    let one = eager(&clients[0], "one").partitions(0..3_000).join().await.expect("it joins");
    hold_within(&server, T, &[&one], &[3_000]).await;
    let sent = requests(&server);
    // The take-over, the record, and three of the member.
    assert_eq!(count(&sent, Operation::Multi), 5, "{sent:?}");
    server.clear_records();
    one.leave().await;
    let sent = requests(&server);
    // Three of the member, its departure, and the leader's record.
    assert_eq!(count(&sent, Operation::Multi), 5, "{sent:?}");
}

/// A decision about many members is one transaction, and members read only their own record.
#[tokio::test(start_paused = true)]
async fn a_decision_about_many_members_is_one_transaction() {
    let (server, clients) = setup(1).await;
    let builder = |id: String| {
        PartitionAssigner::builder(&clients[0], BASE)
            .partitions(0..200)
            .id(id)
            .candidate(false)
            .grace_period(Duration::ZERO)
    };
    let mut members = Vec::new();
    for number in 0..50 {
        members.push(builder(format!("m{number:02}")).join().await.expect("it joins"));
    }
    let leads = builder("m50".to_owned()).candidate(true).join().await.expect("it joins");
    let all: Vec<&PartitionAssigner> = members.iter().chain([&leads]).collect();
    let shared = || all.iter().map(|member| member.assigned().len()).sum::<usize>() == 200;
    within("all is shared", T, server.until(shared)).await;
    tokio::time::sleep(SOON).await;
    server.clear_records();
    leads.leave().await;
    let next = builder("m51".to_owned()).candidate(true).join().await.expect("it joins");
    let all: Vec<&PartitionAssigner> = members.iter().chain([&next]).collect();
    let shared = || all.iter().map(|member| member.assigned().len()).sum::<usize>() == 200;
    within("all is shared", T, server.until(shared)).await;
    assert!(all.iter().all(|member| (3..=4).contains(&member.assigned().len())));
}
