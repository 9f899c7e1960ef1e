//! The cost of a lock: requests, and which of them travel together.

use zookeeper_recipes::testing::Operation;

use super::fixture::{gets, line_has, lock, reading, setup, waits_to_read, waits_to_write, writing};
use crate::fixture::{SOON, requests};

#[tokio::test(start_paused = true)]
async fn a_free_lock_costs_three_requests_of_which_the_first_two_travel_together() {
    let (server, [client]) = setup().await;
    drop(writing(&client).await);
    tokio::time::sleep(SOON).await;
    let cycle = [Operation::Create, Operation::List, Operation::Delete];
    server.clear_records();
    reading(&client).await.release().await.expect("it was held");
    assert_eq!(requests(&server), cycle);
    server.clear_records();
    writing(&client).await.release().await.expect("it was held");
    assert_eq!(requests(&server), cycle);
    let records = server.records();
    assert_eq!(records[0].at, records[1].at, "both are handed over before either is answered: {records:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_beside_readers_costs_as_much_as_one_alone() {
    let (server, [one, two]) = setup().await;
    let first = reading(&one).await;
    drop(reading(&two).await);
    line_has(&server, 1).await;
    server.clear_records();
    reading(&two).await.release().await.expect("it was held");
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::Delete]);
    assert!(first.is_held());
}

#[tokio::test(start_paused = true)]
async fn one_that_waited_for_one_other_costs_five_requests_and_a_hand_over_none() {
    for reads in [true, false] {
        let (server, [one, two]) = setup().await;
        // A reader waits for a writer, and a writer for a reader.
        let (writer, reader) =
            if reads { (Some(writing(&one).await), None) } else { (None, Some(reading(&one).await)) };
        server.clear_records();
        let entered = [Operation::Create, Operation::List, Operation::GetData, Operation::GetData];
        if reads {
            let waiting = waits_to_read(&two).await;
            assert_eq!(requests(&server), entered);
            server.clear_records();
            drop(writer);
            drop(gets(waiting).await);
        } else {
            let waiting = waits_to_write(&two).await;
            assert_eq!(requests(&server), entered);
            server.clear_records();
            drop(reader);
            drop(gets(waiting).await);
        }
        line_has(&server, 0).await;
        assert_eq!(requests(&server), [Operation::Delete, Operation::Delete], "one of each");
        assert_eq!(server.watches(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_waited_for_a_writer_lists_once_more() {
    let (server, [one, two]) = setup().await;
    let first = writing(&one).await;
    server.clear_records();
    let waiting = waits_to_write(&two).await;
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::GetData]);
    server.clear_records();
    drop(first);
    let second = gets(waiting).await;
    assert_eq!(requests(&server), [Operation::Delete, Operation::List]);
    second.release().await.expect("it was held");
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_try_costs_three_requests_whether_or_not_it_gets_the_lock() {
    let (server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    server.clear_records();
    assert!(lock(&two).read().try_acquire().await.expect("an answer").is_none());
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::Delete]);
    assert!(writer.is_held());
}
