//! The requests of a term.

use zookeeper_recipes::leader_selector::SelectorStatus;
use zookeeper_recipes::testing::Operation;

use super::fixture::{Act, Stage, actor, builder, leads, reaches, setup};
use crate::fixture::{SOON, requests};

#[tokio::test(start_paused = true)]
async fn a_term_without_rivals_costs_four_requests() {
    let (server, client, _) = setup().await;
    server.clear_records();
    let stage = Stage::new();
    let selector = builder(&client, "alice").start(actor("alice", &stage, [Act::For(SOON)])).expect("started");
    leads(&selector).await;
    reaches(&selector, SelectorStatus::Idle).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [Operation::Create, Operation::List, Operation::GetData, Operation::Delete]);
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_leader_costs_the_next_one_nothing() {
    let (server, one, two) = setup().await;
    let stage = Stage::new();
    let alice = builder(&one, "alice").start(actor("alice", &stage, [Act::For(SOON * 5)])).expect("started");
    leads(&alice).await;
    let bob = builder(&two, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
    reaches(&bob, SelectorStatus::Waiting).await;
    server.until(|| server.watches() == 3).await;
    server.clear_records();
    leads(&bob).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [Operation::Delete]);
}
