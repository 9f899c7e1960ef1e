//! The cost of a lock: requests, and which of them wait for which.

use std::time::Duration;

use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};
use zookeeper_recipes::testing::{Operation, Record, RecordKind, Task, TestingServer};
use zookeeper_recipes::{Client, ConnectionState, ErrorPolicy};

use super::fixture::{acquired, line, line_has, make_directory, mutex, released, setup};
use crate::fixture::{SOON, T, client_with, heartbeats, heartbeats_in_three_timeouts, requests, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_free_lock_costs_three_requests_of_which_the_first_two_travel_together() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    released(acquired(&mutex).await).await;
    tokio::time::sleep(SOON).await;
    server.clear_records();
    let before = client.request_counts();
    let guard = acquired(&mutex).await;
    let records = server.records();
    assert_eq!(requests(&server), [Operation::Create, Operation::List]);
    assert_eq!(records[0].at, records[1].at, "both are handed over before either is answered: {records:?}");
    released(guard).await;
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::Delete]);
    let counts = client.request_counts() - before;
    assert_eq!((counts.creates, counts.lists, counts.deletes), (1, 1, 1), "{counts:?}");
    assert_eq!(counts.total(), 3, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_costs_no_more_than_one_that_is_released() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    server.clear_records();
    drop(acquired(&mutex).await);
    line_has(&server, 0).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::Delete]);
}

#[tokio::test(start_paused = true)]
async fn to_be_told_of_a_loss_costs_one_more_request_however_often_it_is_asked_for() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    server.clear_records();
    let guard = acquired(&mutex).await;
    guard.run(tokio::time::sleep(SOON)).await.expect("held");
    guard.run(tokio::time::sleep(SOON)).await.expect("held");
    still_pending("held", &mut Box::pin(guard.lost())).await;
    still_pending("held", &mut Box::pin(guard.on_revoke())).await;
    released(guard).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::GetData, Operation::Delete]);
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_waited_for_costs_five_requests_and_its_hand_over_waits_for_the_event_alone() {
    let (server, one, two) = setup().await;
    let (one, two) = (mutex(&one), mutex(&two));
    let first = acquired(&one).await;
    server.clear_records();
    let mut waiting = Box::pin(two.acquire());
    still_pending("the lock is held", &mut waiting).await;
    let entered = [Operation::Create, Operation::List, Operation::GetData, Operation::GetData];
    assert_eq!(requests(&server), entered);
    server.clear_records();
    released(first).await;
    let second = within("the lock is handed over", SOON, waiting).await.expect("held");
    assert_eq!(requests(&server), [Operation::Delete], "that of the one who leaves");
    let deleted = server.records().into_iter().find_map(|record| match record.what {
        RecordKind::Event { .. } => Some(record.at),
        _ => None,
    });
    assert!(deleted.is_some(), "the event came");
    // It is watched already, so being told of a loss costs nothing.
    second.run(tokio::time::sleep(SOON)).await.expect("held");
    released(second).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [Operation::Delete, Operation::Delete]);
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_costs_five_requests_however_long_the_line() {
    let server = TestingServer::start();
    make_directory(&server);
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(server.client().await.expect("a client"));
    }
    let first = acquired(&mutex(&clients[0])).await;
    let mut waiting = Vec::new();
    for client in &clients[1..] {
        let mutex = mutex(client);
        let mut one = Box::pin(async move { mutex.acquire().await.expect("held") });
        // They come one after the other, while the lease of each is fresh.
        let come = tokio::time::timeout(Duration::from_millis(100), &mut one).await;
        assert!(come.is_err(), "the lock is held");
        waiting.push(one);
    }
    released(first).await;
    for one in waiting {
        released(within("its turn comes", SOON, one).await).await;
    }
    tokio::time::sleep(SOON).await;
    for client in &clients[1..] {
        let counts = client.request_counts();
        assert_eq!(counts.total(), 5, "{counts:?}");
    }
    assert_eq!((line(&server).len(), server.watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_loop_of_acquires_and_drops_costs_no_more_than_one_of_releases() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    server.clear_records();
    for _ in 0..20 {
        // At once, with no time for anything in the background.
        drop(acquired(&mutex).await);
    }
    line_has(&server, 0).await;
    assert_eq!(requests(&server).len(), 3 * 20, "{:?}", requests(&server));
    server.clear_records();
    for _ in 0..20 {
        let guard = acquired(&mutex).await;
        guard.run(tokio::time::sleep(Duration::from_millis(10))).await.expect("held");
        drop(guard);
    }
    line_has(&server, 0).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server).len(), 4 * 20, "one more to be told of a loss: {:?}", requests(&server));
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_guard_dropped_without_a_runtime_or_without_a_connection_is_released_all_the_same() {
    let (server, client, _) = setup().await;
    let mutex = mutex(&client);
    for watched in [false, true] {
        let guard = acquired(&mutex).await;
        if watched {
            guard.run(std::future::ready(())).await.expect("held");
        }
        std::thread::spawn(move || drop(guard)).join().expect("no panic");
        line_has(&server, 0).await;
        let guard = acquired(&mutex).await;
        if watched {
            guard.run(std::future::ready(())).await.expect("held");
        }
        server.refuse(&client);
        server.disconnect(&client);
        server.until(|| !client.connection_state().is_connected()).await;
        let before = client.request_counts();
        drop(guard);
        tokio::time::sleep(SOON).await;
        assert_eq!((client.request_counts() - before).total(), 0, "nothing can be sent");
        server.heal();
        line_has(&server, 0).await;
    }
}

/// A client that holds the lock, two that wait for it, and one that has a mutex and does not use it.
struct Line {
    server: TestingServer,
    first: Client,
    second: Client,
    third: Client,
    idle: Client,
    held: MutexGuard,
    waiting: [Task<MutexGuard>; 2],
    _unused: InterProcessMutex,
}

async fn a_line_of_three() -> Line {
    let (server, first, second) = setup().await;
    let (third, idle) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
    let held = acquired(&mutex(&first)).await;
    let wait = |client: &Client| {
        let mutex = mutex(client);
        server.spawn(client, async move { mutex.acquire().await.expect("held") })
    };
    let next = wait(&second);
    line_has(&server, 2).await;
    let waiting = [next, wait(&third)];
    line_has(&server, 3).await;
    let unused = mutex(&idle);
    Line { server, first, second, third, idle, held, waiting, _unused: unused }
}

/// Cuts the connection of a client that comes back at the first or at the second attempt. The request of a first one is
/// then held up, and given up. It could still move the session.
async fn reconnected(server: &TestingServer, client: &Client, attempts: u32) {
    if attempts == 2 {
        server.delay(client, T);
    }
    server.disconnect(client);
    server.until(|| !client.connection_state().is_connected()).await;
    if attempts == 2 {
        tokio::time::sleep(T / 4).await;
        server.heal();
    }
    let again = server.until(|| client.connection_state() == ConnectionState::Reconnected);
    within("it is connected again", T, again).await;
}

/// The requests that a client has handed over since the records were cleared, and when.
fn sent_by(server: &TestingServer, client: &Client) -> Vec<(u64, Operation)> {
    let session = client.session_id().expect("a session");
    let records = server.records().into_iter().filter(|record| record.session == session);
    let sent = records.filter_map(|record| match record.what {
        RecordKind::Request { operation, .. } => Some((record.at, operation)),
        _ => None,
    });
    sent.collect()
}

/// The heartbeats of a client in so long, in which it sends nothing else; all are such requests.
async fn heartbeats_by(operation: Operation, server: &TestingServer, client: &Client, during: Duration) -> u64 {
    server.clear_records();
    let beats = heartbeats(client, during).await;
    let sent = sent_by(server, client);
    assert!(sent.iter().all(|(_, sent)| *sent == operation), "not only {operation:?}: {sent:?}");
    assert_eq!(sent.len() as u64, beats, "{sent:?}");
    beats
}

#[tokio::test(start_paused = true)]
async fn the_holder_and_the_next_send_six_heartbeats_in_a_session_timeout_and_all_others_none() {
    let line = a_line_of_three().await;
    let beats = async |client| heartbeats_in_three_timeouts(&line.server, client).await;
    assert_eq!(beats(&line.first).await, 3 * 6, "it holds");
    assert_eq!(beats(&line.second).await, 3 * 6, "it is next");
    assert_eq!(beats(&line.third).await, 0, "it waits further back");
    assert_eq!(beats(&line.idle).await, 0, "it does nothing");
    assert!(line.held.is_held());
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_further_back_or_does_nothing_sends_one_heartbeat_after_each_reconnect() {
    let line = a_line_of_three().await;
    for client in [&line.third, &line.idle] {
        let session = client.session_id().expect("a session");
        for attempts in [1, 2] {
            line.server.clear_records();
            let before = client.request_counts().heartbeats;
            reconnected(&line.server, client, attempts).await;
            tokio::time::sleep(T * 3).await;
            let beats = client.request_counts().heartbeats - before;
            // A request that was given up may arrive late. The server then closes the connection that the session has.
            let records = line.server.records();
            let connected = |record: &&Record| record.session == session && record.what == RecordKind::Connected;
            let reconnects = records.iter().filter(connected).count() as u64;
            assert!((1..=attempts.into()).contains(&reconnects), "{reconnects} reconnects");
            assert_eq!(beats, reconnects, "with {attempts} attempts");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_after_a_reconnect_in_several_attempts_travels_with_a_transaction_that_proves_the_lease() {
    // In both cases so late that the lease has expired, in the second so early that the session may still be moved.
    for (attempts, after, proof) in [(1, T, Operation::Sync), (2, T / 2, Operation::Multi)] {
        let line = a_line_of_three().await;
        reconnected(&line.server, &line.third, attempts).await;
        tokio::time::sleep(after).await;
        line.server.clear_records();
        let [mut second, third] = line.waiting;
        second.abort();
        line_has(&line.server, 2).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let sent = sent_by(&line.server, &line.third);
        let at = sent[0].0;
        assert_eq!(sent[..2], [(at, proof), (at, Operation::List)], "after {attempts} attempts: {sent:?}");
        released(line.held).await;
        assert!(within("its turn comes", SOON, third).await.expect("no panic").is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_reconnect_in_several_attempts_three_heartbeats_in_two_ticks_are_sent_for_a_session_timeout() {
    const TWO_TICKS: Duration = Duration::from_secs(4);
    let server = TestingServer::start();
    make_directory(&server);
    let client = client_with(&server, ErrorPolicy::Session).await;
    reconnected(&server, &client, 2).await;
    let guard = acquired(&mutex(&client)).await;
    // A sync would not show that the session has moved.
    let beats = heartbeats_by(Operation::Multi, &server, &client, TWO_TICKS * 2).await;
    assert!((6..=7).contains(&beats), "{beats} heartbeats in four ticks, soon after the reconnect");
    tokio::time::sleep(T - TWO_TICKS).await;
    let beats = heartbeats_by(Operation::Sync, &server, &client, T * 2).await;
    assert!((12..=13).contains(&beats), "{beats} heartbeats in two session timeouts, later");
    assert!(guard.is_held());
    released(guard).await;
}

#[tokio::test(start_paused = true)]
async fn a_guard_dropped_after_a_wait_takes_its_watch_along_at_no_cost() {
    let (server, one, two) = setup().await;
    let first = acquired(&mutex(&one)).await;
    let two = mutex(&two);
    let mut waiting = Box::pin(two.acquire());
    still_pending("the lock is held", &mut waiting).await;
    released(first).await;
    let second = waiting.await.expect("held");
    server.clear_records();
    drop(second);
    line_has(&server, 0).await;
    tokio::time::sleep(SOON).await;
    assert_eq!((requests(&server), server.watches()), (vec![Operation::Delete], 0));
}

#[tokio::test(start_paused = true)]
async fn to_try_a_lock_that_is_held_costs_three_requests_and_watches_nothing() {
    let (server, one, two) = setup().await;
    let _held = acquired(&mutex(&one)).await;
    server.clear_records();
    assert!(mutex(&two).try_acquire().await.expect("an answer").is_none());
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::Delete]);
}

#[tokio::test(start_paused = true)]
async fn of_a_hundred_waiters_one_hand_over_wakes_one() {
    let (server, client, other) = setup().await;
    let first = acquired(&mutex(&other)).await;
    let mutex = mutex(&client);
    let waiters: Vec<_> = (0..100)
        .map(|_| {
            let mutex = mutex.clone();
            server.spawn(&client, async move { mutex.acquire().await.expect("held") })
        })
        .collect();
    line_has(&server, 101).await;
    // Each node but the last is watched for the one behind it. (The second also for its owner, which is the same
    // client.)
    server.until(|| server.watches() == 100).await;
    server.clear_records();
    released(first).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [Operation::Delete]);
    let events = server.records().into_iter().filter(|record| matches!(record.what, RecordKind::Event { .. })).count();
    assert_eq!(events, 1);
    drop(waiters);
}
