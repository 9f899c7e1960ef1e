//! Leading in turn, being interrupted, closing: with real turns of the nodes. Failing listeners are tested in
//! memory.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::leader_selector::{RunningTerm, SelectorStatus, TermEnd};

use super::fixture::{Fixture, SOON, Stage, leads, next, reaches, selector};
use crate::support::{eventually, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_selectors_lead_in_turn_each_once_a_round_and_one_at_a_time() {
    const ROUNDS: usize = 3;
    let fixture = Fixture::with_directory("rotation").await;
    let clients = futures::future::join_all((0..5).map(|_| fixture.client())).await;
    let stage = Arc::<Stage>::default();
    let mut all = Vec::new();
    for number in 0..10 {
        let id = format!("selector-{number}");
        // Long enough for an ended leader to rejoin before the round is over.
        all.push(selector(&clients[number % 5], &fixture.path, &id, &stage, Duration::from_millis(30)));
        eventually("it has joined", SOON, || async {
            let line = all[0].participants().await.expect("an answer");
            line.iter().any(|who| who.id == id) || stage.terms().iter().any(|(led, _)| *led == id)
        })
        .await;
    }
    // From a round in which all have joined.
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
        within("it is closed", SOON, selector.close_with(RunningTerm::Interrupt)).await.expect("closed");
    }
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_leader_rejoins_behind_the_next() {
    let fixture = Fixture::with_directory("interrupted").await;
    let stage = Arc::<Stage>::default();
    let alice = selector(&fixture.client().await, &fixture.path, "alice", &stage, None);
    leads(&alice).await;
    let bob = selector(&fixture.client().await, &fixture.path, "bob", &stage, None);
    reaches(&bob, SelectorStatus::Waiting).await;
    let mut outcomes = [alice.outcomes(), bob.outcomes()];
    for round in 0..4 {
        let (leader, other) = if round % 2 == 0 { (&alice, &bob) } else { (&bob, &alice) };
        for selector in [&alice, &bob] {
            let seen = selector.leader().await.expect("an answer").expect("there is a leader");
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
async fn close_waits_for_the_running_term_and_leaves_nothing() {
    let fixture = Fixture::with_directory("close").await;
    let stage = Arc::<Stage>::default();
    let alice = selector(&fixture.client().await, &fixture.path, "alice", &stage, Duration::from_secs(1));
    leads(&alice).await;
    let bob = selector(&fixture.client().await, &fixture.path, "bob", &stage, None);
    reaches(&bob, SelectorStatus::Waiting).await;
    let mut outcomes = alice.outcomes();
    within("it is closed", SOON, alice.close()).await.expect("closed");
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Returned));
    leads(&bob).await;
    assert_eq!(fixture.nodes().await.len(), 1);
    drop(bob);
    fixture.observer.wait_for_children(&fixture.path, 0).await;
    assert_eq!(stage.most_and_now(), (1, 0));
}
