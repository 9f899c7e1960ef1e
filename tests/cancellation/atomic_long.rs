//! DistributedAtomicLong: reading and writing.

use std::time::Duration;

use tokio::time::timeout;
use zookeeper_recipes::atomic_long::{DistributedAtomicLong, Error};
use zookeeper_recipes::{Client, ErrorKind};

use crate::harness::{Run, cases};

cases! {
    get: "DistributedAtomicLong::get", at least 20 drops, 10 faults;
    add: "DistributedAtomicLong::add", at least 50 drops, 30 faults;
    add_again: "DistributedAtomicLong::add", at least 20 drops, 10 faults;
    add_under_a_lock: "DistributedAtomicLong::add", at least 100 drops, 60 faults;
    increment: "DistributedAtomicLong::increment", at least 50 drops, 30 faults;
    decrement: "DistributedAtomicLong::decrement", at least 50 drops, 30 faults;
    compare_and_set: "DistributedAtomicLong::compare_and_set", at least 50 drops, 30 faults;
    initialize: "DistributedAtomicLong::initialize", at least 50 drops, 30 faults;
    set: "DistributedAtomicLong::set", at least 50 drops, 30 faults;
}

const PATH: &str = "/hits";
const LOCK: &str = "/hits-lock";
/// Longer than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(60);

fn number(client: &Client) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, PATH).expect("a good path")
}

fn held(run: &Run) -> Option<i64> {
    run.server().get(PATH).and_then(|data| data.try_into().ok()).map(i64::from_be_bytes)
}

/// Checks that the number is as before, or as the call makes it, and stays so, and that the handle still works.
async fn once<T>(run: &Run, number: DistributedAtomicLong, called: Option<Result<T, Error>>, before: i64, after: i64) {
    match called {
        Some(Ok(_)) => assert_eq!(held(run), Some(after)),
        Some(Err(error)) => {
            assert!(!run.is_calm(), "{error}");
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        }
        None => {}
    }
    let added = timeout(PATIENCE, number.add(1_000)).await.expect("it ends").expect("added");
    assert!(added.before == before || added.before == after, "{added:?}");
    assert!(run.is_polled() || added.before == before, "{added:?}");
    let read = timeout(PATIENCE, number.get()).await.expect("it ends");
    assert_eq!((read, held(run)), (Ok(added.after), Some(added.after)));
    drop(number);
    run.in_the_end("no node is left", || run.server().children(PATH).is_empty()).await;
    assert_eq!(held(run), Some(added.after), "nothing comes late");
}

/// Creates a number of 7, and connects a client.
async fn seven(run: &mut Run) -> Client {
    run.directory(PATH);
    run.server().set_data_by_hand(PATH, 7_i64.to_be_bytes()).expect("it is there");
    run.client().await
}

async fn get(run: &mut Run) {
    let client = seven(run).await;
    let number = number(&client);
    let read = run.cut(number.get()).await.done();
    assert!(read.is_none_or(|read| read == Ok(7)));
    run.is_silent_if_calm().await;
    once(run, number, None::<Result<(), _>>, 7, 7).await;
}

async fn add(run: &mut Run) {
    let client = seven(run).await;
    let number = number(&client);
    let called = run.cut(number.add(5)).await.done();
    once(run, number, called, 7, 12).await;
}

/// The handle already has a node.
async fn add_again(run: &mut Run) {
    let client = seven(run).await;
    let number = number(&client);
    number.add(0).await.expect("added");
    let called = run.cut(number.add(5)).await.done();
    once(run, number, called, 7, 12).await;
}

async fn add_under_a_lock(run: &mut Run) {
    run.directory(LOCK);
    let client = seven(run).await;
    let builder = DistributedAtomicLong::builder(&client, PATH).promoted_to_lock(LOCK).optimistic_tries(0);
    let number = builder.build().expect("good paths");
    let called = run.cut(number.add(5)).await.done();
    once(run, number, called, 7, 12).await;
    run.in_the_end("the lock is free", || run.server().children(LOCK).is_empty()).await;
}

async fn increment(run: &mut Run) {
    let client = seven(run).await;
    let number = number(&client);
    let called = run.cut(number.increment()).await.done();
    once(run, number, called, 7, 8).await;
}

async fn decrement(run: &mut Run) {
    let client = seven(run).await;
    let number = number(&client);
    let called = run.cut(number.decrement()).await.done();
    once(run, number, called, 7, 6).await;
}

async fn compare_and_set(run: &mut Run) {
    let client = seven(run).await;
    let number = number(&client);
    let called = run.cut(number.compare_and_set(7, 20)).await.done();
    assert!(!matches!(called, Some(Ok(false))), "it is what is expected");
    once(run, number, called, 7, 20).await;
}

async fn initialize(run: &mut Run) {
    run.directory(PATH);
    let client = run.client().await;
    let number = number(&client);
    let called = run.cut(number.initialize(9)).await.done();
    assert!(!matches!(called, Some(Ok(false))), "the node is empty");
    once(run, number, called, 0, 9).await;
}

async fn set(run: &mut Run) {
    let client = seven(run).await;
    let number = number(&client);
    let called = run.cut(number.set(30)).await.done();
    once(run, number, called, 7, 30).await;
}
