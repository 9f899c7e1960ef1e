//! A term is interrupted.

use zookeeper_recipes::leader_selector::{RequeuePolicy, SelectorStatus, TermEnd};

use super::fixture::{Act, PATH, Stage, actor, builder, leads, next, reaches, setup};
use crate::fixture::{SOON, T};

#[tokio::test(start_paused = true)]
async fn an_interrupted_listener_is_dropped_and_the_next_participant_leads() {
    let (_server, one, two) = setup().await;
    let stage = Stage::new();
    let alice = builder(&one, "alice").start(actor("alice", &stage, [Act::ForEver])).expect("started");
    leads(&alice).await;
    let bob = builder(&two, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
    reaches(&bob, SelectorStatus::Waiting).await;
    let mut outcomes = alice.outcomes();
    assert!(!bob.interrupt_leadership(), "it does not lead");
    assert!(alice.interrupt_leadership());
    assert!(!alice.interrupt_leadership(), "it is interrupted already");
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Interrupted));
    leads(&bob).await;
    assert!(!alice.has_leadership());
    assert_eq!((stage.most(), stage.running(), stage.finished()), (1, 1, 0));
    reaches(&alice, SelectorStatus::Idle).await;
}

#[tokio::test(start_paused = true)]
async fn quick_interrupts_end_one_term_each_and_never_the_requeuing() {
    let (_server, client, _) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
    let selector = selector.start(actor("alice", &stage, [Act::ForEver])).expect("started");
    let mut outcomes = selector.outcomes();
    for terms in 1..=10 {
        leads(&selector).await;
        for _ in 0..5 {
            selector.interrupt_leadership();
        }
        assert!(matches!(next(&mut outcomes).await.end, TermEnd::Interrupted));
        assert_eq!(stage.terms().len(), terms);
    }
    leads(&selector).await;
    assert_eq!(stage.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn within_the_grace_period_the_listener_is_told_and_finishes_and_no_other_participant_leads() {
    let (server, one, two) = setup().await;
    let stage = Stage::new();
    let alice = builder(&one, "alice").grace_period(SOON * 5);
    let alice = alice.start(actor("alice", &stage, [Act::UntilLost(SOON * 3)])).expect("started");
    leads(&alice).await;
    let bob = builder(&two, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
    reaches(&bob, SelectorStatus::Waiting).await;
    let mut outcomes = alice.outcomes();
    assert!(alice.interrupt_leadership());
    reaches(&alice, SelectorStatus::Ending).await;
    assert!(!alice.has_leadership());
    tokio::time::sleep(SOON * 2).await;
    assert!(!bob.has_leadership(), "the listener still works");
    assert_eq!(server.children(PATH).len(), 2);
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Interrupted));
    assert_eq!(stage.finished(), 1);
    leads(&bob).await;
    assert_eq!(stage.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_the_grace_period_the_listener_is_dropped() {
    let (_server, client, _) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").grace_period(SOON * 5);
    let selector = selector.start(actor("alice", &stage, [Act::UntilLost(T * 100)])).expect("started");
    leads(&selector).await;
    let mut outcomes = selector.outcomes();
    let begun = tokio::time::Instant::now();
    assert!(selector.interrupt_leadership());
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Interrupted));
    assert!(begun.elapsed() >= SOON * 5 && begun.elapsed() < SOON * 6, "{:?}", begun.elapsed());
    assert_eq!((stage.running(), stage.finished()), (0, 0));
}
