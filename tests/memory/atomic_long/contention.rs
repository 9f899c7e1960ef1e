//! Many writers of one number.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::atomic_long::DistributedAtomicLong;
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{PATH, held, number, pair, setup, setup_with, writers};
use crate::fixture::{SOON, within};

const LOCK: &str = "/counters/lock";

fn promoted(client: &Client, tries: u32) -> DistributedAtomicLong {
    let builder = DistributedAtomicLong::builder(client, PATH).promoted_to_lock(LOCK).optimistic_tries(tries);
    builder.build().expect("good paths")
}

/// Curator's simulation: each adds so often; the sum is exact, no two get the same number, and each sees it grow.
async fn all_add(server: &TestingServer, handles: Vec<DistributedAtomicLong>, times: usize) {
    let expected = i64::try_from(handles.len() * times).expect("a small number");
    let add = |handle: DistributedAtomicLong| async move {
        let mut seen = Vec::new();
        for _ in 0..times {
            seen.push(handle.increment().await.expect("added").after);
        }
        seen
    };
    let seen = join_all(handles.into_iter().map(add)).await;
    assert_eq!(held(server), Some(expected));
    assert!(seen.iter().all(|seen| seen.is_sorted()));
    let all: BTreeSet<i64> = seen.into_iter().flatten().collect();
    assert!(all.iter().copied().eq(1..=expected), "{all:?}");
    server.until(|| writers(server).is_empty()).await;
    assert!(server.panics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn twenty_clients_add_fifty_times_each() {
    let (server, clients) = setup::<20>().await;
    all_add(&server, clients.iter().map(number).collect(), 50).await;
}

#[tokio::test(start_paused = true)]
async fn twenty_clients_add_with_a_lock_and_use_both_ways() {
    let (server, clients) = setup::<20>().await;
    all_add(&server, clients.iter().map(|client| promoted(client, 2)).collect(), 20).await;
    let entries = server.count(zookeeper_recipes::testing::Target::ALL, Operation::List);
    assert!((1..400).contains(&entries), "some calls were promoted, and some were not: {entries}");
    server.until(|| server.children(LOCK).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn with_no_tries_each_call_is_under_the_lock() {
    let (server, clients) = setup::<5>().await;
    all_add(&server, clients.iter().map(|client| promoted(client, 0)).collect(), 10).await;
    server.until(|| server.children(LOCK).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn those_with_a_lock_and_those_without_share_a_number() {
    let (server, clients) = setup::<6>().await;
    let handle = |(at, client)| if at % 2 == 0 { number(client) } else { promoted(client, 1) };
    all_add(&server, clients.iter().enumerate().map(handle).collect(), 30).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_makes_a_refused_call_wait() {
    let (server, [client, other]) = setup_with(0).await;
    let held_lock = zookeeper_recipes::mutex::InterProcessMutex::new(&other, LOCK).expect("a good path");
    let guard = held_lock.acquire().await.expect("it is free");
    let hits = promoted(&client, 0);
    let mut adding = Box::pin(hits.increment());
    crate::fixture::still_pending("the lock is held", &mut adding).await;
    assert_eq!(held(&server), Some(0));
    guard.release().await.expect("it was held");
    assert_eq!(pair(within("the lock is free", SOON, adding).await.expect("added")), (0, 1));
    server.until(|| server.children(LOCK).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_waits_for_the_lock_leaves_nothing() {
    let (server, [client, other]) = setup_with(0).await;
    let held_lock = zookeeper_recipes::mutex::InterProcessMutex::new(&other, LOCK).expect("a good path");
    let _guard = held_lock.acquire().await.expect("it is free");
    let hits = promoted(&client, 0);
    let mut adding = Box::pin(hits.increment());
    crate::fixture::still_pending("the lock is held", &mut adding).await;
    drop(adding);
    server.until(|| server.children(LOCK).len() == 1).await;
    assert_eq!(held(&server), Some(0));
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_handle_take_turns_in_their_order_and_do_not_collide() {
    let server = TestingServer::builder().latency(Duration::from_millis(5)..=Duration::from_millis(5)).start();
    let client = server.client().await.expect("a client");
    let hits = number(&client);
    hits.set(0).await.expect("set");
    let before = client.request_counts();
    let added = join_all((0..50).map(|_| hits.increment())).await;
    let after: Vec<i64> = added.into_iter().map(|added| added.expect("added").after).collect();
    assert!(after.iter().copied().eq(1..=50), "{after:?}");
    let sent = client.request_counts() - before;
    assert_eq!((sent.multis, sent.total()), (50, 50), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn sets_and_additions_of_several_clients_have_an_order() {
    let (server, [one, two]) = setup_with(0).await;
    let (adder, setter) = (number(&one), number(&two));
    let adding = async {
        let mut added = Vec::new();
        for _ in 0..100 {
            added.push(pair(adder.increment().await.expect("added")));
        }
        added
    };
    let setting = async {
        for round in 1..=20 {
            setter.set(round * 1_000).await.expect("set");
        }
    };
    let (added, ()) = tokio::join!(adding, setting);
    for pairs in added.windows(2) {
        let [(_, after), (before, _)] = pairs else { continue };
        assert!(before == after || before % 1_000 == 0, "{after} became {before} by no write");
    }
    assert!(held(&server).is_some_and(|held| held >= 20_000), "{:?}", held(&server));
    server.create_by_hand(LOCK, "", CreateMode::Persistent).expect("no lock was used");
}
