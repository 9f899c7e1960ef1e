//! Leading more than once.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use zookeeper_recipes::leader_selector::{LeaderSelector, Leadership, RequeuePolicy, SelectorStatus};

use super::fixture::{Act, Stage, actor, builder, leads, next, reaches, setup};
use crate::fixture::{SOON, T};

#[tokio::test(start_paused = true)]
async fn a_requeue_makes_a_difference_once_a_term_and_not_while_waiting() {
    let (_server, client, other) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").start(actor("alice", &stage, [Act::For(SOON)])).expect("started");
    assert!(!selector.requeue(), "it is about to join");
    for term in 1..=3 {
        leads(&selector).await;
        if term == 2 {
            // Also while it leads.
            assert!(selector.requeue());
            assert!(!selector.requeue());
            let mut states = selector.state();
            states.wait_for(|state| !state.is_leader()).await.expect("alive");
            continue;
        }
        let mut states = selector.state();
        states.wait_for(|state| !state.is_leader()).await.expect("alive");
        assert!(selector.requeue(), "who has seen it lead, and lead no more, can requeue");
        assert!(!selector.requeue());
    }
    leads(&selector).await;
    reaches(&selector, SelectorStatus::Idle).await;
    assert_eq!(stage.terms().len(), 4);

    let held = builder(&other, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
    leads(&held).await;
    assert!(selector.requeue());
    reaches(&selector, SelectorStatus::Waiting).await;
    assert!(!selector.requeue(), "it waits");
}

#[tokio::test(start_paused = true)]
async fn a_listener_can_requeue_its_own_selector() {
    let (server, client, _) = setup().await;
    let handle: Arc<OnceLock<LeaderSelector>> = Arc::default();
    let terms = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let lead = {
        let (handle, terms) = (Arc::clone(&handle), Arc::clone(&terms));
        move |_: Leadership| {
            let (handle, terms) = (Arc::clone(&handle), Arc::clone(&terms));
            async move {
                if terms.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 4 {
                    assert!(handle.get().expect("set").requeue());
                }
            }
        }
    };
    handle.set(builder(&client, "alice").start(lead).expect("started")).expect("once");
    let terms = || terms.load(std::sync::atomic::Ordering::SeqCst);
    server.until(|| terms() == 5).await;
    reaches(handle.get().expect("set"), SelectorStatus::Idle).await;
    tokio::time::sleep(T).await;
    assert_eq!(terms(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_delay_and_the_jitter_of_the_policy_are_kept() {
    let (server, client, _) = setup().await;
    let stage = Stage::new();
    let policy = RequeuePolicy { delay: SOON * 10, jitter: SOON * 10, ..RequeuePolicy::default() };
    let selector = builder(&client, "alice").auto_requeue(policy);
    let selector = selector.start(actor("alice", &stage, [Act::For(SOON)])).expect("started");
    let mut outcomes = selector.outcomes();
    let mut pauses = Vec::new();
    for term in 1..=8 {
        next(&mut outcomes).await;
        let ended = tokio::time::Instant::now();
        reaches(&selector, SelectorStatus::Pausing).await;
        assert!(!selector.requeue(), "it rejoins automatically");
        server.until(|| stage.terms().len() > term).await;
        pauses.push(ended.elapsed());
    }
    assert!(pauses.iter().all(|pause| *pause >= SOON * 10 && *pause <= SOON * 21), "{pauses:?}");
    let spread = *pauses.iter().max().expect("some") - *pauses.iter().min().expect("some");
    assert!(spread > Duration::from_millis(500), "{pauses:?}");
}
