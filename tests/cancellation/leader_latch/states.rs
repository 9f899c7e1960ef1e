//! Following the state of a latch.

use std::time::Duration;

use tokio::time::timeout;
use zookeeper_recipes::leader_latch::LatchStatus;

use super::{LINE, latch, leader_of, leads};
use crate::harness::{Run, cases};

cases! {
    changed: "StateReceiver::changed", at least 60 drops, 40 faults;
    wait_for: "StateReceiver::wait_for", at least 60 drops, 40 faults;
}

/// Longer than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(60);

/// The next call returns a change that a dropped one did not return.
async fn changed(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let (latch, _leadership) = leader_of(&client, "it").await;
    let node = latch.our_path().expect("a leader has a node");
    let mut states = latch.state();
    let deleted = node.clone();
    run.later(&client, Duration::from_millis(40), move |server| drop(server.delete_by_hand(&deleted)));
    let mut state = match run.cut(states.changed()).await.done() {
        Some(changed) => changed.expect("the latch is alive"),
        None => states.get(),
    };
    while !state.is_leader() || latch.our_path().is_none_or(|path| path == node) {
        let changed = timeout(PATIENCE, states.changed()).await.expect("the next state comes");
        state = changed.expect("the latch is alive");
    }
}

/// The call only waits: another one returns the state that the first one waited for.
async fn wait_for(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let latch = latch(&client, "it");
    let mut states = latch.state();
    if let Some(state) = run.cut(states.wait_for(|state| state.status() == LatchStatus::Leading)).await.done() {
        drop(state.expect("the latch is alive"));
    }
    leads(&latch).await;
    let leading = timeout(PATIENCE, states.wait_for(|state| state.is_leader())).await.expect("it leads");
    leading.expect("the latch is alive");
}
