//! Barrier: setting, removing, and waiting for the removal.

use std::time::Duration;

use zookeeper_recipes::barrier::Barrier;
use zookeeper_recipes::{Client, ErrorKind};

use crate::harness::{Run, cases};

cases! {
    set: "Barrier::set", at least 110 drops, 80 faults;
    remove: "Barrier::remove", at least 90 drops, 70 faults;
    wait: "Barrier::wait", at least 320 drops, 250 faults;
    wait_until_timeout: "Barrier::wait", at least 750 drops, 450 faults;
    wait_in_time: "Barrier::wait_timeout", at least 200 drops, 170 faults;
    wait_for_nothing: "Barrier::wait_timeout", at least 140 drops, 110 faults;
}

const PATH: &str = "/gate";

fn barrier(client: &Client) -> Barrier {
    Barrier::new(client, PATH).expect("a good path")
}

/// Checks that the barrier can be set, blocks, and can be removed.
async fn works(run: &Run, barrier: &Barrier) {
    barrier.set().await.expect("it is repeated");
    assert!(!barrier.wait_timeout(Duration::from_millis(100)).await.expect("an answer"), "the barrier is set");
    barrier.remove().await.expect("it is repeated");
    barrier.wait().await.expect("there is none");
    assert!(run.server().stat(PATH).is_none());
}

async fn set(run: &mut Run) {
    let client = run.client().await;
    let barrier = barrier(&client);
    if let Some(set) = run.cut(barrier.set()).await.done() {
        set.expect("it is repeated");
        assert!(run.server().stat(PATH).is_some());
    }
    run.is_silent_if_calm().await;
    works(run, &barrier).await;
}

async fn remove(run: &mut Run) {
    let client = run.client().await;
    let barrier = barrier(&client);
    barrier.set().await.expect("nothing is wrong yet");
    if let Some(removed) = run.cut(barrier.remove()).await.done() {
        removed.expect("it is repeated");
        assert!(run.server().stat(PATH).is_none());
    }
    run.is_silent_if_calm().await;
    works(run, &barrier).await;
}

/// Waits until another client removes the barrier.
async fn wait(run: &mut Run) {
    let client = run.client().await;
    let other = run.other_client().await;
    let barrier = barrier(&client);
    barrier.set().await.expect("nothing is wrong yet");
    run.later(&other, Duration::from_millis(70), |server| server.delete_by_hand(PATH).expect("the barrier is set"));
    if let Some(waited) = run.cut(barrier.wait()).await.done() {
        waited.expect("it is removed");
        assert!(run.server().stat(PATH).is_none());
    }
    run.only_watches_of_others_are_left(0).await;
    run.in_the_end("it is removed", || run.server().stat(PATH).is_none()).await;
    works(run, &barrier).await;
}

async fn wait_until_timeout(run: &mut Run) {
    let client = run.client().await;
    let barrier = barrier(&client);
    barrier.set().await.expect("nothing is wrong yet");
    assert!(run.cut(barrier.wait()).await.done().is_none(), "the barrier is set");
    run.only_watches_of_others_are_left(0).await;
    run.is_silent_if_calm().await;
    works(run, &barrier).await;
}

async fn wait_in_time(run: &mut Run) {
    let client = run.client().await;
    let barrier = barrier(&client);
    barrier.set().await.expect("nothing is wrong yet");
    match run.cut(barrier.wait_timeout(Duration::from_millis(500))).await.done() {
        Some(Ok(gone)) => assert!(!gone, "the barrier is set"),
        Some(Err(error)) => assert!(!run.is_calm() && error.kind() == ErrorKind::TimedOut, "{error}"),
        None => {}
    }
    run.only_watches_of_others_are_left(0).await;
    run.is_silent_if_calm().await;
    works(run, &barrier).await;
}

async fn wait_for_nothing(run: &mut Run) {
    let client = run.client().await;
    let barrier = barrier(&client);
    if let Some(gone) = run.cut(barrier.wait_timeout(Duration::from_secs(30))).await.done() {
        assert!(gone.expect("there is time"), "there is none");
    }
    run.is_silent_if_calm().await;
    works(run, &barrier).await;
}
