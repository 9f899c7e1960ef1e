//! The end of a selector, or of its client.

use futures::StreamExt;
use zookeeper_recipes::leader_selector::{RequeuePolicy, RunningTerm, SelectorStatus, TermEnd};

use super::fixture::{Act, PATH, Stage, actor, builder, leads, next, reaches, setup};
use crate::fixture::{SOON, T, polled, still_pending, within};

#[tokio::test(start_paused = true)]
async fn close_waits_for_the_running_term_and_for_its_node_to_be_gone() {
    let (server, client, _) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
    let selector = selector.start(actor("alice", &stage, [Act::For(SOON * 5)])).expect("started");
    leads(&selector).await;
    let mut outcomes = selector.outcomes();
    let mut closing = Box::pin(selector.close());
    still_pending("the term runs", &mut closing).await;
    assert!(selector.has_leadership(), "nothing is taken from it");
    within("it is closed", SOON * 10, closing).await.expect("closed");
    assert_eq!((stage.finished(), stage.terms().len()), (1, 1));
    assert!(server.children(PATH).is_empty());
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Returned));
    assert!(outcomes.next().await.is_none(), "there will be no more");
    assert!(selector.outcomes().next().await.is_none());
    assert_eq!(selector.state().get().status(), SelectorStatus::Closed);
    assert!(!selector.requeue() && !selector.interrupt_leadership());
    within("twice is fine", SOON, selector.close()).await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_term_that_never_ends_is_closed_by_interrupting_it() {
    for stricter in [true, false] {
        let (server, client, _) = setup().await;
        let stage = Stage::new();
        let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
        let selector = selector.start(actor("alice", &stage, [Act::ForEver])).expect("started");
        leads(&selector).await;
        let mut outcomes = selector.outcomes();
        let mut closing = Box::pin(selector.close());
        still_pending("the term runs", &mut closing).await;
        if stricter {
            within("it is closed", SOON, selector.close_with(RunningTerm::Interrupt)).await.expect("closed");
        } else {
            assert!(selector.interrupt_leadership());
        }
        within("it is closed", SOON, closing).await.expect("closed");
        assert!(matches!(next(&mut outcomes).await.end, TermEnd::Interrupted));
        assert_eq!((stage.running(), stage.terms().len()), (0, 1));
        assert!(server.children(PATH).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_is_closed_at_once_and_changes_nothing_for_the_leader() {
    let (server, one, two) = setup().await;
    let stage = Stage::new();
    let alice = builder(&one, "alice").start(actor("alice", &stage, [Act::ForEver])).expect("started");
    leads(&alice).await;
    let bob = builder(&two, "bob").on_close(RunningTerm::Interrupt).start(actor("bob", &stage, [Act::ForEver]));
    let bob = bob.expect("started");
    reaches(&bob, SelectorStatus::Waiting).await;
    within("it is closed", SOON, bob.close()).await.expect("closed");
    assert!(alice.has_leadership());
    assert_eq!(server.children(PATH).len(), 1);
    server.until(|| server.watches() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_selector_interrupts_its_term_and_leaves() {
    let (server, client, other) = setup().await;
    let stage = Stage::new();
    let alice = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
    let alice = alice.start(actor("alice", &stage, [Act::ForEver])).expect("started");
    leads(&alice).await;
    let bob = builder(&other, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
    reaches(&bob, SelectorStatus::Waiting).await;
    drop(alice);
    leads(&bob).await;
    assert_eq!((stage.most(), server.children(PATH).len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_close_dropped_at_any_poll_is_carried_out_and_one_that_was_never_polled_is_not() {
    for times in 0..6 {
        let (server, client, _) = setup().await;
        let stage = Stage::new();
        let selector = builder(&client, "alice").start(actor("alice", &stage, [Act::ForEver])).expect("started");
        leads(&selector).await;
        drop(polled(times, selector.close_with(RunningTerm::Interrupt)).await);
        if times == 0 {
            tokio::time::sleep(T).await;
            assert!(selector.has_leadership());
            continue;
        }
        reaches(&selector, SelectorStatus::Closed).await;
        assert!(server.children(PATH).is_empty());
        server.until(|| server.watches() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_client_ends_the_term_and_the_selector() {
    let (_server, client, _) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
    let selector = selector.start(actor("alice", &stage, [Act::ForEver])).expect("started");
    leads(&selector).await;
    let mut outcomes = selector.outcomes();
    client.close().await.expect("closed");
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Lost));
    reaches(&selector, SelectorStatus::Closed).await;
    assert_eq!(stage.running(), 0);
    within("it is closed", SOON, selector.close()).await.expect("nothing is left");
}

#[tokio::test(start_paused = true)]
async fn closed_while_it_enters_is_cut_off_or_pauses_leaves_nothing() {
    for millis in 0..8 {
        let (server, client, _) = setup().await;
        let policy = RequeuePolicy { delay: T * 100, ..RequeuePolicy::default() };
        let selector = builder(&client, "alice").auto_requeue(policy);
        let selector = selector.start(actor("alice", &Stage::new(), [Act::For(SOON / 500)])).expect("started");
        tokio::time::sleep(SOON / 1000 * millis).await;
        within("it is closed", SOON, selector.close()).await.expect("closed");
        assert!(server.children(PATH).is_empty(), "closed after {millis} ms");
        server.until(|| server.watches() == 0).await;
    }
    let (server, client, other) = setup().await;
    let stage = Stage::new();
    let leader = builder(&other, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
    leads(&leader).await;
    let selector = builder(&client, "alice").start(actor("alice", &stage, [Act::ForEver])).expect("started");
    reaches(&selector, SelectorStatus::Waiting).await;
    server.refuse(&client);
    server.disconnect(&client);
    reaches(&selector, SelectorStatus::Suspended).await;
    let mut closing = Box::pin(selector.close());
    still_pending("there is no server to tell", &mut closing).await;
    server.heal();
    within("it is closed", T * 3, closing).await.expect("closed");
    server.until(|| server.children(PATH).len() == 1).await;
}
