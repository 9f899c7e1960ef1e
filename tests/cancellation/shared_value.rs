//! SharedValue: starting, waiting, writing.

use std::time::Duration;

use tokio::time::timeout;
use zookeeper_recipes::shared_value::{Error, SharedValue, SharedValueBuilder, Utf8};
use zookeeper_recipes::{Client, ErrorKind};

use crate::harness::{Run, cases};

cases! {
    start: "SharedValueBuilder::start", at least 50 drops, 30 faults;
    synced: "SharedValue::synced", at least 20 drops, 10 faults;
    wait_for: "SharedValue::wait_for", at least 20 drops, 8 faults;
    next: "Changes::next", at least 20 drops, 8 faults;
    set: "SharedValue::set", at least 15 drops, 8 faults;
    compare_and_set: "SharedValue::compare_and_set", at least 15 drops, 8 faults;
    update: "SharedValue::update", at least 15 drops, 8 faults;
    update_of_what_another_client_has_written: "SharedValue::update", at least 50 drops, 30 faults;
}

const PATH: &str = "/mode";
/// Longer than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(60);

fn builder(client: &Client) -> SharedValueBuilder<Utf8> {
    SharedValue::builder(client, PATH).decode(Utf8).seed("old")
}

/// Starts a value whose node exists, and returns its client, too.
async fn started(run: &mut Run) -> (Client, SharedValue<String>) {
    run.directory(PATH);
    run.server().set_data_by_hand(PATH, "old").expect("it is there");
    let client = run.client().await;
    let value = builder(&client).start().await.expect("it starts");
    (client, value)
}

fn held(run: &Run) -> Option<Vec<u8>> {
    run.server().get(PATH)
}

/// Checks that the value follows what is written, and leaves nothing when it is dropped.
async fn works(run: &Run, value: SharedValue<String>) {
    run.server().set_data_by_hand(PATH, "by hand").expect("it is there");
    let synced = timeout(PATIENCE, value.synced()).await.expect("it ends").expect("a value");
    assert_eq!(*synced, "by hand");
    let updated = timeout(PATIENCE, value.update(|now| Some(format!("{now}, updated")))).await.expect("it ends");
    assert_eq!(*updated.expect("updated").expect("written"), "by hand, updated");
    drop(value);
    run.only_watches_of_others_are_left(0).await;
    assert_eq!(held(run), Some(b"by hand, updated".to_vec()), "nothing comes late");
}

async fn start(run: &mut Run) {
    run.may_stay(PATH);
    let client = run.client().await;
    if let Some(value) = run.cut(builder(&client).start()).await.done() {
        assert_eq!(*value.expect("it is repeated").get().expect("a value"), "old");
    }
    run.only_watches_of_others_are_left(0).await;
    run.is_silent_if_calm().await;
    let value = timeout(PATIENCE, builder(&client).start()).await.expect("it ends").expect("it starts");
    works(run, value).await;
}

async fn synced(run: &mut Run) {
    let (_client, value) = started(run).await;
    run.server().set_data_by_hand(PATH, "new").expect("it is there");
    if let Some(synced) = run.cut(value.synced()).await.done() {
        assert_eq!(*synced.expect("a value"), "new");
    }
    works(run, value).await;
}

async fn wait_for(run: &mut Run) {
    let (client, value) = started(run).await;
    run.later(&client, Duration::from_millis(40), |server| server.set_data_by_hand(PATH, "new").expect("it is there"));
    if let Some(found) = run.cut(value.wait_for(|now| now == "new")).await.done() {
        assert_eq!(*found.expect("it is open"), "new");
    }
    run.in_the_end("it comes", || value.get().is_ok_and(|now| *now == "new")).await;
    works(run, value).await;
}

/// The next call returns a change that was not returned.
async fn next(run: &mut Run) {
    let (_client, value) = started(run).await;
    let mut changes = value.changes();
    run.server().set_data_by_hand(PATH, "new").expect("it is there");
    let change = match run.cut(changes.next()).await.done() {
        Some(change) => change,
        None => timeout(PATIENCE, changes.next()).await.expect("no change is missing"),
    };
    assert_eq!(*change.expect("it is open").expect("a value"), "new");
    works(run, value).await;
}

/// Checks that the value is as before, or as the call makes it.
fn once<T>(run: &Run, value: &SharedValue<String>, called: Option<Result<T, Error>>, [before, after]: [&str; 2]) {
    let held = held(run).map(|data| String::from_utf8(data).expect("text"));
    match called {
        Some(Ok(_)) => {
            assert_eq!(held.as_deref(), Some(after));
            assert_eq!(*value.get().expect("a value"), after, "an own write is read");
        }
        Some(Err(error)) => {
            assert!(!run.is_calm() && error.kind() == ErrorKind::OutcomeUnknown, "{error}");
        }
        None => assert!(run.is_polled() || held.as_deref() == Some(before), "{held:?}"),
    }
    assert!(held.as_deref() == Some(before) || held.as_deref() == Some(after), "{held:?}");
}

async fn set(run: &mut Run) {
    let (_client, value) = started(run).await;
    let called = run.cut(value.set("new")).await.done();
    once(run, &value, called, ["old", "new"]);
    works(run, value).await;
}

async fn compare_and_set(run: &mut Run) {
    let (_client, value) = started(run).await;
    let expected = value.get().expect("a value");
    let called = run.cut(value.compare_and_set(&expected, "new")).await.done();
    assert!(!matches!(called, Some(Ok(false))), "it is what is expected");
    once(run, &value, called, ["old", "new"]);
    works(run, value).await;
}

async fn update(run: &mut Run) {
    let (_client, value) = started(run).await;
    let called = run.cut(value.update(|now| Some(format!("{now} and new")))).await.done();
    once(run, &value, called, ["old", "old and new"]);
    works(run, value).await;
}

/// The first try is refused.
async fn update_of_what_another_client_has_written(run: &mut Run) {
    let (_client, value) = started(run).await;
    run.server().set_data_by_hand(PATH, "other").expect("it is there");
    let called = run.cut(value.update(|now| Some(format!("{now} and new")))).await.done();
    once(run, &value, called, ["other", "other and new"]);
    works(run, value).await;
}
