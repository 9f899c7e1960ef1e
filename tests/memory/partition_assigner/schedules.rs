//! Orders of events that went wrong once, and options at their limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zookeeper_recipes::partition_assigner::{Event, Owned, Partitions, Strategy, drain, pin, rebalance};
use zookeeper_recipes::testing::{Loss, Operation, RecordKind, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorPolicy};

use super::fixture::{BASE, eager, held, hold, hold_within, joined, setup};
use crate::fixture::{SOON, T, within};

const DELAY: Duration = Duration::from_secs(60);
const CALM: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(500));

#[tokio::test(start_paused = true)]
async fn durations_without_an_end_are_no_panic() {
    let (server, clients) = setup(2).await;
    let build =
        |at: usize, id: &str| eager(&clients[at], id).grace_period(Duration::MAX).rebalance_delay(Duration::MAX);
    let one = build(0, "one").join().await.expect("it joins");
    hold(&server, &[&one], &[12]).await;
    let two = build(1, "two").join().await.expect("it joins");
    tokio::time::sleep(SOON).await;
    one.assigned().iter().filter(|partition| partition.is_revoked()).for_each(Owned::release);
    hold(&server, &[&one, &two], &[6, 6]).await;
    clients[1].close().await.expect("closed");
    tokio::time::sleep(DELAY).await;
    assert_eq!(held(&one).len(), 6);
    rebalance(&clients[0], BASE).await.expect("asked");
    hold(&server, &[&one], &[12]).await;
}

#[tokio::test(start_paused = true)]
async fn with_an_endless_debounce_what_operators_do_is_applied_at_once() {
    let (server, clients) = setup(1).await;
    let one = eager(&clients[0], "one").debounce(Duration::MAX, Duration::MAX).join().await.expect("it joins");
    hold(&server, &[&one], &[0]).await;
    pin(&clients[0], BASE, "3", "one").await.expect("pinned");
    hold(&server, &[&one], &[12]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_drained_while_it_was_absent_gets_nothing_when_it_comes_back() {
    let (server, clients) = setup(3).await;
    let build = |at: usize, id: &str| eager(&clients[at], id).rebalance_delay(DELAY).debounce(CALM.0, CALM.1);
    let one = build(0, "one").join().await.expect("it joins");
    let two = build(1, "two").join().await.expect("it joins");
    hold(&server, &[&one, &two], &[6, 6]).await;
    two.leave_for_restart().await;
    drain(&clients[0], BASE, "two").await.expect("drained");
    hold(&server, &[&one], &[12]).await;
    let again = build(2, "two").join().await.expect("it joins");
    server.keep_versions(&format!("{BASE}/assignments/two"));
    hold(&server, &[&one, &again], &[12, 0]).await;
    let versions = server.take_versions();
    let got = |(data, _): &(Vec<u8>, _)| !String::from_utf8_lossy(data).contains(r#""assigned":[]"#);
    assert!(!versions.iter().flatten().any(got), "{versions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_was_removed_while_its_member_was_absent_is_not_granted() {
    let (server, clients) = setup(3).await;
    server.create_by_hand("/list", "0..12", CreateMode::Persistent).expect("created");
    let build = |at: usize, id: &str| {
        let builder = eager(&clients[at], id).partitions(Partitions::node("/list"));
        builder.rebalance_delay(DELAY).debounce(CALM.0, CALM.1)
    };
    let one = build(0, "one").join().await.expect("it joins");
    let two = build(1, "two").join().await.expect("it joins");
    hold(&server, &[&one, &two], &[6, 6]).await;
    two.leave_for_restart().await;
    let kept: Vec<String> = held(&one).iter().map(ToString::to_string).collect();
    server.set_data_by_hand("/list", kept.join("\n")).expect("set");
    tokio::time::sleep(SOON).await;
    server.keep_versions(&format!("{BASE}/owned"));
    let again = build(2, "two").join().await.expect("it joins");
    hold(&server, &[&one, &again], &[3, 3]).await;
    assert!(held(&again).iter().all(|partition| kept.contains(&partition.to_string())));
}

/// The node of the partitions is created between the two reads of the leader.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_created_while_the_leader_looks_for_it_is_read() {
    let server = TestingServer::builder().latency(Duration::from_millis(3)..=Duration::from_millis(3)).start();
    let client = server.client().await.expect("a client");
    let joining = eager(&client, "one").partitions(Partitions::node("/list")).join();
    let is_read = || {
        let records = server.records().into_iter();
        records
            .filter(|record| matches!(&record.what, RecordKind::Request { operation: Operation::GetData, .. }))
            .count()
            > 1
    };
    let create = async {
        server.until(is_read).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        server.create_by_hand("/list", "0..12", CreateMode::Persistent).expect("created");
    };
    let (member, ()) = tokio::join!(joining, create);
    hold_within(&server, T, &[&member.expect("it joins")], &[12]).await;
}

async fn client_with_lease(server: &TestingServer) -> Client {
    Client::builder_for_testing(server).error_policy(ErrorPolicy::Session).connect().await.expect("a client")
}

/// The answer to the transaction by which a member leaves is lost: work has its grace period all the same.
#[tokio::test(start_paused = true)]
async fn a_departure_whose_answer_is_lost_ends_no_work() {
    for loss in [Loss::Applied, Loss::Truncated, Loss::NotApplied] {
        let server = TestingServer::start();
        let client = client_with_lease(&server).await;
        let one = Arc::new(eager(&client, "one").grace_period(T * 3).join().await.expect("it joins"));
        hold(&server, &[&one], &[12]).await;
        let (ended, who) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&one));
        let here = Arc::clone(&ended);
        tokio::spawn(async move {
            let work = move |partition: Owned| {
                let ended = Arc::clone(&here);
                async move {
                    partition.revoked().await;
                    tokio::time::sleep(T / 4).await;
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            };
            who.run(work).await
        });
        tokio::time::sleep(SOON).await;
        server.lose_next_reply(&client, Operation::Multi, loss);
        one.leave().await;
        assert_eq!(ended.load(Ordering::SeqCst), 12, "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_that_cannot_read_the_settings_decides_nothing() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0], "one").await;
    let two = joined(&clients[1], "two").await;
    drain(&clients[0], BASE, "two").await.expect("drained");
    hold(&server, &[&one, &two], &[12, 0]).await;
    server.set_data_by_hand(&format!("{BASE}/config"), "oops").expect("set");
    tokio::time::sleep(SOON).await;
    server.set_data_by_hand(&format!("{BASE}/epoch"), "a new term").expect("set");
    server.disconnect(&clients[0]);
    hold_within(&server, T, &[&one, &two], &[12, 0]).await;
    server.set_data_by_hand(&format!("{BASE}/config"), "{}").expect("set");
    hold_within(&server, T, &[&one, &two], &[6, 6]).await;
}

/// The servers take less in one request than the client believes.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_too_large_is_divided() {
    let (server, clients) = setup(1).await;
    server.max_buffer(100_000);
    let one = eager(&clients[0], "one").partitions(0..3_000).join().await.expect("it joins");
    hold_within(&server, T * 10, &[&one], &[3_000]).await;
    one.leave().await;
    assert!(server.children(&format!("{BASE}/owned")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_member_leaves_while_there_is_no_connection_once_its_session_is_over() {
    let (server, clients) = setup(1).await;
    let one = joined(&clients[0], "one").await;
    hold(&server, &[&one], &[12]).await;
    server.stop();
    within("it leaves", T * 5, one.leave()).await;
}

/// The last good assignment stays while the strategy fails.
#[tokio::test(start_paused = true)]
async fn a_strategy_that_fails_is_reported_and_nothing_moves() {
    use futures::StreamExt;

    let (server, clients) = setup(3).await;
    let fails = Arc::new(AtomicUsize::new(0));
    let here = Arc::clone(&fails);
    let strategy = Strategy::custom(move |partitions, members| match here.load(Ordering::SeqCst) {
        1 => panic!("as this test wants"),
        2 => vec![Some(99); partitions.len()],
        3 => Vec::new(),
        _ => (0..partitions.len()).map(|at| at.checked_rem(members.len())).collect(),
    });
    let one = eager(&clients[0], "one").strategy(strategy.clone()).join().await.expect("it joins");
    let two = eager(&clients[1], "two").strategy(strategy.clone()).join().await.expect("it joins");
    hold(&server, &[&one, &two], &[6, 6]).await;
    let mut events = one.events();
    for (kind, why) in [(1, "as this test wants"), (2, "99"), (3, "0")] {
        fails.store(kind, Ordering::SeqCst);
        rebalance(&clients[0], BASE).await.expect("asked");
        let failed = async {
            loop {
                if let Some(Event::NotAssigned { error }) = events.next().await {
                    return error.to_string();
                }
            }
        };
        let error = within("it is reported", SOON, failed).await;
        assert!(error.contains(why), "{error}");
        hold(&server, &[&one, &two], &[6, 6]).await;
    }
    fails.store(0, Ordering::SeqCst);
    let three = eager(&clients[2], "three").strategy(strategy).join().await.expect("it joins");
    hold(&server, &[&one, &two, &three], &[4, 4, 4]).await;
}

/// An operator asks for it just when the node of the member vanishes.
#[tokio::test(start_paused = true)]
async fn a_rebalance_counts_for_members_that_vanish_at_that_moment() {
    for millis in [0, 1, 2, 4, 8] {
        let (server, clients) = setup(3).await;
        let one = eager(&clients[0], "one").rebalance_delay(DELAY).join().await.expect("it joins");
        let two = eager(&clients[1], "two").rebalance_delay(DELAY).join().await.expect("it joins");
        hold(&server, &[&one, &two], &[6, 6]).await;
        let gone = server.until(|| server.children(&format!("{BASE}/members")).len() == 1);
        let operator = async {
            gone.await;
            tokio::time::sleep(Duration::from_millis(millis)).await;
            rebalance(&clients[2], BASE).await.expect("asked");
        };
        tokio::join!(two.leave_for_restart(), operator);
        hold(&server, &[&one], &[12]).await;
    }
}

/// A record that is deleted by hand begins with version 0 again if it is created again. A late write of the member that
/// was meant for the first record must not fit the second.
#[tokio::test(start_paused = true)]
async fn a_registration_never_gets_a_second_record() {
    let (server, clients) = setup(3).await;
    let one = eager(&clients[0], "one").capacity(6).join().await.expect("it joins");
    hold(&server, &[&one], &[6]).await;
    let path = format!("{BASE}/assignments/two");
    let free: Vec<u32> = (0..12).filter(|number| !held(&one).contains(number)).collect();
    server.delay(&clients[1], Duration::from_millis(500));
    let joining = tokio::spawn(eager(&clients[1], "two").grace_period(SOON).candidate(false).join());
    let is_assigned =
        || server.get(&path).is_some_and(|data| String::from_utf8_lossy(&data).contains(r#""assigned":[""#));
    within("it is assigned something", T, server.until(is_assigned)).await;
    let registration = server.children(&format!("{BASE}/members"));
    // Its take of what is in the first record is on its way.
    tokio::time::sleep(Duration::from_millis(1_800)).await;
    for number in free {
        pin(&clients[2], BASE, &number.to_string(), "one").await.expect("pinned");
    }
    server.delete_by_hand(&path).expect("deleted");
    let two = joining.await.expect("no panic").expect("it joins");
    for _ in 0..2_000 {
        let both = held(&one).into_iter().filter(|number| held(&two).contains(number)).count();
        assert_eq!(both, 0, "two owners");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_ne!(server.children(&format!("{BASE}/members")), registration, "it has registered again");
}
