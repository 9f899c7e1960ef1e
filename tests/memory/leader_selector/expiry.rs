//! Leadership is lost: with the session, with the connection, with the node, while the process was stopped.

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::leader_selector::{RequeuePolicy, SelectorStatus, TermEnd};
use zookeeper_recipes::testing::Data;

use super::fixture::{Act, PATH, Stage, actor, builder, leads, next, reaches, setup};
use crate::fixture::{SOON, T, client_with};

#[tokio::test(start_paused = true)]
async fn with_auto_requeue_every_loss_of_the_session_is_survived() {
    let (server, client, _) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
    let selector = selector.start(actor("alice", &stage, [Act::ForEver])).expect("started");
    let mut outcomes = selector.outcomes();
    for _ in 0..20 {
        leads(&selector).await;
        assert!(server.expire_session(&client));
        assert!(matches!(next(&mut outcomes).await.end, TermEnd::Lost));
        assert_eq!(stage.running(), 0);
    }
    leads(&selector).await;
    assert_eq!((stage.most(), stage.terms().len()), (1, 21));
    assert!(stage.tokens().is_sorted_by(|one, next| one < next));
}

#[tokio::test(start_paused = true)]
async fn without_auto_requeue_a_lost_term_is_the_last_until_requeued_but_a_lost_wait_is_not() {
    let (server, one, two) = setup().await;
    let stage = Stage::new();
    let alice = builder(&one, "alice").start(actor("alice", &stage, [Act::ForEver])).expect("started");
    leads(&alice).await;
    let bob = builder(&two, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
    reaches(&bob, SelectorStatus::Waiting).await;
    server.expire_session(&two);
    reaches(&bob, SelectorStatus::Entering).await;
    reaches(&bob, SelectorStatus::Waiting).await;
    server.expire_session(&one);
    leads(&bob).await;
    reaches(&alice, SelectorStatus::Idle).await;
    assert!(alice.requeue());
    reaches(&alice, SelectorStatus::Waiting).await;
    assert_eq!(stage.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn under_the_standard_policy_a_term_ends_with_the_connection_and_under_the_session_policy_it_does_not() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let (server, _, _) = setup().await;
        let client = client_with(&server, policy).await;
        let stage = Stage::new();
        let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
        let selector = selector.start(actor("alice", &stage, [Act::ForEver])).expect("started");
        leads(&selector).await;
        // The question whether the server serves may still be under way, on a connection of its own.
        assert!(server.disconnect(&client) > 0);
        tokio::time::sleep(T).await;
        leads(&selector).await;
        let terms = if policy == ErrorPolicy::Standard { 2 } else { 1 };
        assert_eq!(stage.terms().len(), terms, "{policy:?}");
        assert_eq!(server.children(PATH).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn in_silence_the_listener_is_dropped_before_another_leads() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let (server, _, two) = setup().await;
        let one = client_with(&server, policy).await;
        // Counted together: most stays one.
        let stage = Stage::new();
        let alice = builder(&one, "alice").auto_requeue(RequeuePolicy::default());
        let alice = alice.start(actor("alice", &stage, [Act::ForEver])).expect("started");
        leads(&alice).await;
        let bob = builder(&two, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
        reaches(&bob, SelectorStatus::Waiting).await;
        server.black_hole(&one);
        leads(&bob).await;
        assert!(!alice.has_leadership());
        assert_eq!((stage.most(), stage.running()), (1, 1), "{policy:?}");
        server.heal();
        reaches(&alice, SelectorStatus::Waiting).await;
        drop(bob);
        leads(&alice).await;
        assert_eq!(stage.most(), 1, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_does_not_begin_while_the_grace_period_of_the_one_before_runs() {
    let (server, client, _) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default()).grace_period(T * 3);
    let selector = selector.start(actor("alice", &stage, [Act::UntilLost(T * 2)])).expect("started");
    let mut outcomes = selector.outcomes();
    for _ in 0..3 {
        leads(&selector).await;
        server.expire_session(&client);
        reaches(&selector, SelectorStatus::Ending).await;
        assert!(matches!(next(&mut outcomes).await.end, TermEnd::Lost));
    }
    assert_eq!((stage.most(), stage.finished()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_node_is_deleted_by_hand_leads_no_more() {
    let (server, client, _) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
    let selector = selector.start(actor("alice", &stage, [Act::ForEver])).expect("started");
    let mut outcomes = selector.outcomes();
    for _ in 0..3 {
        leads(&selector).await;
        // It watches its node by then.
        server.until(|| server.watches() == 1).await;
        let node = server.children(PATH).swap_remove(0);
        server.delete_by_hand(&format!("{PATH}/{node}")).expect("it exists");
        assert!(matches!(next(&mut outcomes).await.end, TermEnd::Lost));
    }
    leads(&selector).await;
    assert_eq!(stage.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_frozen_for_longer_than_its_session_finds_its_listener_dropped() {
    let (server, one, two) = setup().await;
    let stage = Stage::new();
    let alice = builder(&one, "alice").auto_requeue(RequeuePolicy::default());
    // The listener looks at its leadership whenever it wakes, and must never see a leadership that is another's.
    let alice = alice.start(actor("alice", &stage, [Act::ForEver])).expect("started");
    leads(&alice).await;
    let bob = builder(&two, "bob").start(actor("bob", &Stage::new(), [Act::ForEver])).expect("started");
    reaches(&bob, SelectorStatus::Waiting).await;
    server.freeze_client(&one);
    leads(&bob).await;
    assert!(!alice.has_leadership(), "its own clock ends the leadership for every caller");
    tokio::time::sleep(T).await;
    server.thaw_client(&one);
    server.until(|| stage.running() == 0).await;
    reaches(&alice, SelectorStatus::Waiting).await;
    assert!(bob.has_leadership());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_and_restarts_with_or_without_its_data_is_survived() {
    for data in [Data::Kept, Data::Lost] {
        let (server, one, two) = setup().await;
        let stage = Stage::new();
        let start = |client, id| {
            let selector = builder(client, id).auto_requeue(RequeuePolicy::default());
            selector.start(actor(id, &stage, [Act::For(SOON)])).expect("started")
        };
        let (_alice, _bob) = (start(&one, "alice"), start(&two, "bob"));
        server.until(|| stage.terms().len() >= 4).await;
        server.stop();
        tokio::time::sleep(T * 2).await;
        assert_eq!(stage.running(), 0);
        let before = stage.terms().len();
        server.restart(data);
        server.until(|| stage.terms().len() >= before + 4).await;
        let ids = stage.ids().split_off(before);
        assert!(ids.iter().any(|id| id == "alice") && ids.iter().any(|id| id == "bob"), "{data:?}: {ids:?}");
        assert_eq!(stage.most(), 1);
    }
}
