//! The cost of permits: requests, and which of them wait for which.

use std::cell::Cell;
use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::semaphore::InterProcessSemaphore;
use zookeeper_recipes::testing::{Operation, TestingServer};

use super::fixture::{LEASES, acquired, counted, make_count, nodes, nodes_are, released, semaphore, set_count, setup};
use crate::fixture::{SOON, T, requests, still_pending, within};

/// Acquires and releases so many permits, and returns the requests, with the number of flights in which they left.
async fn cost(server: &TestingServer, semaphore: &InterProcessSemaphore, permits: u32) -> (Vec<Operation>, usize) {
    drop(acquired(semaphore, permits).await);
    nodes_are(server, (0, 0)).await;
    tokio::time::sleep(SOON).await;
    server.clear_records();
    let guard = acquired(semaphore, permits).await;
    released(guard).await;
    let mut times: Vec<_> = server
        .records()
        .into_iter()
        .filter(|record| matches!(record.what, zookeeper_recipes::testing::RecordKind::Request { .. }))
        .map(|record| record.at)
        .collect();
    times.dedup();
    (requests(server), times.len())
}

#[tokio::test(start_paused = true)]
async fn free_permits_cost_four_requests_and_two_for_each_in_three_flights() {
    let (server, [client]) = setup().await;
    for permits in 1..=3 {
        let (requests, flights) = cost(&server, &semaphore(&client, 3), permits).await;
        let leases = permits as usize;
        let mut expected = vec![Operation::Create, Operation::List];
        expected.extend([Operation::Create].repeat(leases));
        expected.extend([Operation::List, Operation::Delete]);
        expected.extend([Operation::Delete].repeat(leases));
        assert_eq!(requests, expected);
        assert_eq!(flights, 3, "the place in the line, the leases, and their release");
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_of_a_node_is_read_with_the_leases() {
    let (server, [client]) = setup().await;
    make_count(&server, 3);
    let (requests, flights) = cost(&server, &counted(&client), 1).await;
    let asked = [Operation::Create, Operation::List, Operation::GetData];
    assert_eq!(requests[2..5], asked);
    assert_eq!((requests.len(), flights), (7, 3));
}

#[tokio::test(start_paused = true)]
async fn the_first_that_waits_watches_in_one_flight_and_lists_once_for_each_event() {
    let (server, [one, two]) = setup().await;
    let held = acquired(&semaphore(&one, 2), 1).await;
    let other = acquired(&semaphore(&one, 2), 1).await;
    nodes_are(&server, (0, 2)).await;
    let waiter = semaphore(&two, 2);
    server.clear_records();
    let mut waiting = Box::pin(waiter.acquire(2));
    still_pending("none is free", &mut waiting).await;
    let entered = [Operation::Create, Operation::List, Operation::Create, Operation::Create, Operation::List];
    let (first, then) = (requests(&server)[..5].to_vec(), requests(&server)[5..].to_vec());
    assert_eq!(first, entered);
    // The leases, and its own node in the line.
    assert_eq!(then, [Operation::List, Operation::GetData]);
    assert_eq!(server.watches(), 2);
    server.clear_records();
    drop(held);
    still_pending("one is free", &mut waiting).await;
    assert_eq!(requests(&server), [Operation::Delete, Operation::List, Operation::List], "it watches again");
    server.clear_records();
    drop(other);
    let guard = within("two are free", SOON, waiting).await.expect("held");
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [Operation::Delete, Operation::List, Operation::Delete]);
    assert_eq!((nodes(&server), server.watches()), ((0, 2), 0), "the watch of its place has ended with that");
    released(guard).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_first_of_the_line_looks_at_the_leases() {
    let (server, [one, two, three, four]) = setup().await;
    let held = acquired(&semaphore(&one, 1), 1).await;
    let waiter = |client: &Client| {
        let semaphore = semaphore(client, 1);
        Box::pin(async move { semaphore.acquire(1).await.expect("held") })
    };
    let (mut second, mut third, mut fourth) = (waiter(&two), waiter(&three), waiter(&four));
    still_pending("it is taken", &mut second).await;
    still_pending("one is ahead", &mut third).await;
    still_pending("two are ahead", &mut fourth).await;
    assert_eq!(nodes(&server), (3, 2));
    let before = (three.request_counts(), four.request_counts());
    released(held).await;
    let second = within("it is free", SOON, second).await;
    // The third is the first of the line now, and the fourth the next one.
    still_pending("it is taken", &mut third).await;
    still_pending("one is ahead", &mut fourth).await;
    assert_eq!(nodes(&server), (2, 2));
    let third_sent = three.request_counts() - before.0;
    assert_eq!((third_sent.creates, third_sent.lists, third_sent.deletes), (1, 1, 0), "{third_sent:?}");
    let fourth_sent = four.request_counts() - before.1;
    assert_eq!((fourth_sent.creates, fourth_sent.deletes), (0, 0), "{fourth_sent:?}");
    drop((second, third, fourth));
    nodes_are(&server, (0, 0)).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watched_number_costs_one_request_more_at_the_end_of_the_wait() {
    let (server, [one, two]) = setup().await;
    make_count(&server, 1);
    let held = acquired(&counted(&one), 1).await;
    nodes_are(&server, (0, 1)).await;
    let waiter = counted(&two);
    server.clear_records();
    let mut waiting = Box::pin(waiter.acquire(1));
    still_pending("it is taken", &mut waiting).await;
    assert_eq!(server.watches(), 3, "the leases, the number, and its own node in the line");
    server.clear_records();
    drop(held);
    let guard = within("it is free", SOON, waiting).await.expect("held");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let sent = requests(&server);
    assert_eq!(sent[..3], [Operation::Delete, Operation::List, Operation::GetData]);
    assert_eq!(sent.len(), 5, "and the end of the watch, and the place in the line: {sent:?}");
    assert_eq!(server.watches(), 0);
    set_count(&server, 0);
    assert!(guard.is_held());
    released(guard).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_costs_a_look_when_others_are_ahead_and_its_own_leases_when_not() {
    let (server, [one, two]) = setup().await;
    let held = acquired(&semaphore(&one, 1), 1).await;
    nodes_are(&server, (0, 1)).await;
    let tries = semaphore(&two, 1);
    server.clear_records();
    assert!(tries.try_acquire(1).await.expect("an answer").is_none());
    let place = [Operation::Create, Operation::List];
    let expected = [place, place, [Operation::Delete; 2]].concat();
    assert_eq!(requests(&server), expected);
    let waiter = semaphore(&one, 1);
    let mut waiting = Box::pin(waiter.acquire(1));
    still_pending("it is taken", &mut waiting).await;
    server.clear_records();
    assert!(tries.try_acquire(1).await.expect("an answer").is_none());
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::List, Operation::Delete]);
    assert_eq!(nodes(&server), (1, 2));
    drop(held);
}

/// Of the guards that are dropped in an outage, so that the requests of callers find room on the next connection.
#[tokio::test(start_paused = true)]
async fn after_an_outage_permits_are_given_back_in_bounded_waves() {
    const PERMITS: u32 = 1_000;
    const AT_ONCE: u64 = 256;
    let latency = Duration::from_millis(5);
    let server = TestingServer::builder().latency(latency..=latency).start();
    let client = server.client().await.expect("a client");
    let guard = acquired(&semaphore(&client, PERMITS), PERMITS).await;
    nodes_are(&server, (0, PERMITS as usize)).await;
    server.refuse(&client);
    server.disconnect(&client);
    server.until(|| !client.connection_state().is_connected()).await;
    drop(guard);
    let before = server.count(&client, Operation::Delete);
    server.heal();
    let most = Cell::new(0);
    let all_gone = server.until(|| {
        let left = server.children(LEASES).len() as u64;
        let under_way = server.count(&client, Operation::Delete) - before - (u64::from(PERMITS) - left);
        most.set(most.get().max(under_way));
        left == 0
    });
    within("they are given back", T, all_gone).await;
    assert!((2..=AT_ONCE).contains(&most.get()), "{}", most.get());
}
