//! Letting others go first.

use zookeeper_recipes::leader_selector::{LeaderSelector, RequeuePolicy, SelectorStatus};
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{Act, PATH, Stage, actor, builder, leads, reaches, setup};
use crate::fixture::{SOON, T};

fn policy() -> RequeuePolicy {
    RequeuePolicy { yield_to_others: T, ..RequeuePolicy::default() }
}

#[tokio::test(start_paused = true)]
async fn one_that_yields_stays_out_of_an_empty_line_for_its_time_and_no_longer() {
    for missing in [true, false] {
        let (server, client, _) = setup().await;
        let stage = Stage::new();
        let path = if missing { "/elections/new" } else { PATH };
        let selector = LeaderSelector::builder(&client, path).auto_requeue(policy());
        let selector = selector.start(actor("alice", &stage, [Act::For(SOON)])).expect("started");
        leads(&selector).await;
        reaches(&selector, SelectorStatus::Pausing).await;
        if missing {
            server.delete_by_hand(path).expect("the directory is empty");
        }
        let begun = tokio::time::Instant::now();
        leads(&selector).await;
        assert!(begun.elapsed() >= T - SOON && begun.elapsed() < T + SOON, "{:?}", begun.elapsed());
        drop(selector);
        server.until(|| server.watches() == 0).await;
    }
}

async fn comes_first(server: &TestingServer, alice: &LeaderSelector, start_bob: impl FnOnce() -> LeaderSelector) {
    reaches(alice, SelectorStatus::Pausing).await;
    tokio::time::sleep(SOON).await;
    let bob = start_bob();
    leads(&bob).await;
    // It rejoins as soon as another participant has joined.
    server.until(|| server.children(PATH).len() == 2).await;
    reaches(alice, SelectorStatus::Waiting).await;
    drop(bob);
    leads(alice).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_meanwhile_leads_first() {
    let (server, one, two) = setup().await;
    let stage = Stage::new();
    let alice = builder(&one, "alice").auto_requeue(policy());
    let alice = alice.start(actor("alice", &stage, [Act::For(SOON)])).expect("started");
    leads(&alice).await;
    let start = || builder(&two, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
    comes_first(&server, &alice, start).await;
    // Also if the connection, or the session, is lost while it stays out.
    for expire in [true, false] {
        reaches(&alice, SelectorStatus::Pausing).await;
        if expire {
            server.expire_session(&one);
        } else {
            server.disconnect(&one);
        }
        comes_first(&server, &alice, start).await;
    }
    assert_eq!(stage.most(), 1);
}
