//! Leading in turn, being interrupted, failing, closing.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::leader_selector::{CloseMode, LeaderSelector, Leadership, SelectorStatus, TermEnd};

use super::words::{SOON, Scene, Stage, leads, next, reaches, selector};
use crate::support::{eventually, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_selectors_lead_in_turn_each_once_a_round_and_one_at_a_time() {
    const ROUNDS: usize = 3;
    let scene = Scene::with_directory("rotation").await;
    let clients = futures::future::join_all((0..5).map(|_| scene.client())).await;
    let stage = Arc::<Stage>::default();
    let mut all = Vec::new();
    for number in 0..10 {
        let id = format!("selector-{number}");
        // Long enough for whoever has led to stand in line again before the round is over.
        all.push(selector(&clients[number % 5], &scene.path, &id, &stage, Duration::from_millis(30)));
        eventually("it stands in line", SOON, || async {
            let line = all[0].participants().await.expect("an answer");
            line.iter().any(|who| who.id == id) || stage.terms().iter().any(|(led, _)| *led == id)
        })
        .await;
    }
    // From a round in which all stand in line.
    let from = stage.terms().len() + 1;
    let rounds = || async { stage.terms().len() >= from + 10 * ROUNDS };
    eventually("all have led often enough", SOON * 2, rounds).await;
    let terms = stage.terms();
    for round in terms[from..from + 10 * ROUNDS].chunks(10) {
        let mut once: Vec<_> = round.iter().map(|(id, _)| id).collect();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), 10, "each once: {round:?}");
    }
    assert!(terms.is_sorted_by(|(_, one), (_, next)| one < next));
    assert_eq!(stage.most_and_now().0, 1, "never two at once");
    for selector in &all {
        within("it is closed", SOON, selector.close_with(CloseMode::Interrupt)).await.expect("closed");
    }
    assert!(scene.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_leader_stands_in_line_again_behind_the_next() {
    let scene = Scene::with_directory("interrupted").await;
    let stage = Arc::<Stage>::default();
    let alice = selector(&scene.client().await, &scene.path, "alice", &stage, None);
    leads(&alice).await;
    let bob = selector(&scene.client().await, &scene.path, "bob", &stage, None);
    reaches(&bob, SelectorStatus::Waiting).await;
    let mut outcomes = [alice.outcomes(), bob.outcomes()];
    for round in 0..4 {
        let (leader, other) = if round % 2 == 0 { (&alice, &bob) } else { (&bob, &alice) };
        for selector in [&alice, &bob] {
            let seen = selector.leader().await.expect("an answer").expect("somebody leads");
            assert_eq!(seen.id, leader.id());
        }
        assert!(!other.interrupt_leadership());
        // Twice is once.
        assert!(leader.interrupt_leadership());
        leader.interrupt_leadership();
        assert!(matches!(next(&mut outcomes[round % 2]).await.end, TermEnd::Interrupted));
        leads(other).await;
        reaches(leader, SelectorStatus::Waiting).await;
    }
    eventually("the listener leads", SOON, || async { stage.most_and_now() == (1, 1) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_fails_or_panics_releases_and_is_told() {
    let scene = Scene::with_directory("failing").await;
    let client = scene.client().await;
    for panics in [false, true] {
        let lead = move |_: Leadership| async move {
            assert!(!panics, "it panicked");
            Err::<(), _>("it failed")
        };
        let failing = LeaderSelector::builder(&client, &scene.path).id("failing").start(lead).expect("started");
        let mut outcomes = failing.outcomes();
        match next(&mut outcomes).await.end {
            TermEnd::Failed(error) => assert_eq!(error.to_string(), "it failed"),
            TermEnd::Panicked(message) => assert_eq!(message, "it panicked"),
            end => panic!("{end:?}"),
        }
        assert!(scene.nodes().await.is_empty());
        reaches(&failing, SelectorStatus::Idle).await;
        assert!(failing.requeue());
        next(&mut outcomes).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_waits_for_the_running_term_and_leaves_nothing() {
    let scene = Scene::with_directory("close").await;
    let stage = Arc::<Stage>::default();
    let alice = selector(&scene.client().await, &scene.path, "alice", &stage, Duration::from_secs(1));
    leads(&alice).await;
    let bob = selector(&scene.client().await, &scene.path, "bob", &stage, None);
    reaches(&bob, SelectorStatus::Waiting).await;
    let mut outcomes = alice.outcomes();
    within("it is closed", SOON, alice.close()).await.expect("closed");
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Returned));
    leads(&bob).await;
    assert_eq!(scene.nodes().await.len(), 1);
    drop(bob);
    scene.observer.wait_for_children(&scene.path, 0).await;
    assert_eq!(stage.most_and_now(), (1, 0));
}
