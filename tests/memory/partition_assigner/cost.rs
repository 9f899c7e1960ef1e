//! The budget: requests of each step.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::partition_assigner::{Owned, PartitionAssigner, Partitions};
use zookeeper_recipes::testing::{Operation, TestingServer};

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

/// A member writes as much at once as fits, even if only little fitted before.
#[tokio::test(start_paused = true)]
async fn a_set_of_long_names_is_replaced_by_another() {
    let (server, clients) = setup(1).await;
    let long =
        |start: &str| -> String { (0..2_200).map(|at| format!("{start}{at:05}{}\n", "x".repeat(220))).collect() };
    server.create_by_hand("/list", long("a"), CreateMode::Persistent).expect("created");
    let one = eager(&clients[0], "one").grace_period(SOON * 5).partitions(Partitions::node("/list"));
    let one = one.join().await.expect("it joins");
    let all = |start: char| {
        let held = one.assigned();
        held.len() == 2_200 && held.iter().all(|one| one.id().starts_with(start))
    };
    within("it holds all", T, server.until(|| all('a'))).await;
    server.clear_records();
    server.set_data_by_hand("/list", long("b")).expect("set");
    within("it holds all others", T * 10, server.until(|| all('b'))).await;
    let count = requests(&server).len();
    assert!(count < 500, "{count} requests");
}

/// All records must be written, while members write theirs all the time, as work ends and begins. One that was written
/// meanwhile delays no other for long.
#[tokio::test(start_paused = true)]
async fn busy_members_do_not_keep_the_leader_from_writing() {
    const MEMBERS: usize = 40;
    let (least, most) = (Duration::from_millis(20), Duration::from_millis(20));
    let server = TestingServer::builder().latency(least..=most).start();
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(server.client().await.expect("a client"));
    }
    server.create_by_hand("/list", "0..1000", CreateMode::Persistent).expect("created");
    let mut members = Vec::new();
    for number in 0..MEMBERS {
        let member = PartitionAssigner::builder(&clients[number % 5], BASE).id(format!("m{number}")).candidate(false);
        members.push(Arc::new(member.join().await.expect("it joins")));
    }
    let leader = PartitionAssigner::builder(&clients[0], BASE).capacity(0).partitions(Partitions::node("/list"));
    let _leader = leader.join().await.expect("it joins");
    for member in &members {
        let member = Arc::clone(member);
        tokio::spawn(async move {
            member
                .run(|partition: Owned| async move {
                    let number: u64 = partition.id().trim_start_matches('a').parse().expect("a number");
                    let done = sleep(SOON * 10 + Duration::from_millis(number * 3));
                    tokio::select! { _ = partition.revoked() => {}, () = done => {} }
                })
                .await
        });
    }
    sleep(T * 6).await;
    server.clear_records();
    let names: String = (0..1_000).map(|number| format!("a{number}\n")).collect();
    server.set_data_by_hand("/list", names).expect("set");
    let new = || {
        let all = members.iter().flat_map(|member| member.assigned());
        all.filter(|one| one.id().starts_with('a')).count()
    };
    let moved = tokio::time::timeout(SOON * 20, server.until(|| new() > 900)).await;
    assert!(moved.is_ok(), "{} of 1000 after {} requests", new(), requests(&server).len());
    assert!(requests(&server).len() < 6_000, "{} requests", requests(&server).len());
}
