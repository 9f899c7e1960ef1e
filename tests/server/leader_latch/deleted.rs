//! Nodes deleted by hand, where the server decides what is seen first: the event, the refusal of a fence, or the news
//! of the next leader. The rest is shown in memory.

use tokio::task::JoinHandle;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{
    A_WHILE, Edge, Edges, Fixture, Heard, SOON, hears, latch, leads, line_becomes, no_latch_leads_for, recorder, waits,
};
use crate::support::{eventually, unique_path, within};

fn how_many_lead(latches: &[&LeaderLatch]) -> usize {
    latches.iter().filter(|latch| latch.has_leadership()).count()
}

/// The line `leader`, `waiter`, `last`, each of a client of its own.
async fn line_of_three(fixture: &Fixture) -> (Client, [LeaderLatch; 3]) {
    let client = fixture.client().await;
    let leader = fixture.latch(&client, "leader");
    leads(&leader).await;
    let waiter = fixture.latch(&fixture.client().await, "waiter");
    waits(&waiter).await;
    let last = fixture.latch(&fixture.client().await, "last");
    waits(&last).await;
    (client, [leader, waiter, last])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_node_is_deleted_hears_of_it_and_its_fence_is_refused_at_once() {
    let fixture = Fixture::new("own").await;
    let (client, [old, new, last]) = line_of_three(&fixture).await;
    let report = unique_path("report");
    fixture.observer.create(&report, b"old").await;
    let (listener, mut heard) = recorder();
    old.add_listener(listener);
    let leadership = leads(&old).await;
    let token = leadership.fencing_token();
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    let node = old.our_path().expect("a leader has a node");
    let written = client.transaction().check(&leadership.fence()).set_data(&report, b"led", None);
    written.commit().await.expect("a leader writes");

    fixture.observer.delete(&node).await;
    let late = client.transaction().check(&leadership.fence()).set_data(&report, b"late", None);
    let refused = late.commit().await.expect_err("its node is gone");
    assert!(matches!(refused.kind(), ErrorKind::Fenced | ErrorKind::SessionLost), "{refused}");
    assert_eq!(fixture.observer.data(&report).await.as_deref(), Some(&b"led"[..]));

    within("the old leader is told", SOON, leadership.lost()).await;
    assert!(!leadership.is_held());
    assert_eq!(hears(&mut heard).await, Heard::NotLeader);
    assert!(leads(&new).await.fencing_token() > token);
    // It rejoins at the back, with another node.
    line_becomes(&new, &["waiter", "last", "leader"]).await;
    let again = waits(&old).await;
    assert_ne!(again, node);
    // Nothing moves any more.
    no_latch_leads_for(A_WHILE, &[&old, &last]).await;
    assert_eq!(how_many_lead(&[&old, &new, &last]), 1);
    let still = client.transaction().check(&leadership.fence()).set_data(&report, b"late", None);
    assert_eq!(still.commit().await.expect_err("it stays refused").kind(), ErrorKind::Fenced);

    new.close().await.expect("closed");
    last.close().await.expect("closed");
    let regained = leads(&old).await;
    assert!(regained.fencing_token() > token);
    assert!(!leadership.is_held(), "a lost leadership stays lost");
}

/// One transaction deletes the leader's node and the waiter's. The events come in the order of the deletions: the
/// waiter's own first, and it never leads; the leader's first, and it may for the length of a notification believe to
/// lead, with a node that is already deleted, so with a fence that is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_is_deleted_together_with_the_leader_gets_no_leadership_that_stands() {
    let fixture = Fixture::new("both").await;
    let clients = [fixture.client().await, fixture.client().await, fixture.client().await];
    let target = unique_path("both-target");
    fixture.observer.create(&target, b"").await;
    for round in 0..60 {
        let dir = unique_path("both");
        fixture.observer.create(&dir, b"").await;
        let leader = latch(&clients[0], &dir, "leader");
        leads(&leader).await;
        let waiter = latch(&clients[1], &dir, "waiter");
        waits(&waiter).await;
        let last = latch(&clients[2], &dir, "last");
        waits(&last).await;
        let edges = Edges::of(&waiter);
        let brief = fenced_write_of_a_brief_leader(&waiter, &clients[1], &target);
        let nodes = [&leader, &waiter].map(|latch| latch.our_path().expect("both have nodes"));
        let mut writer = fixture.observer.client().new_multi_writer();
        let waiter_first = round % 2 == 0;
        for number in if waiter_first { [1, 0] } else { [0, 1] } {
            writer.add_delete(&nodes[number], None).expect("a delete");
        }
        writer.commit().await.expect("both are deleted");

        leads(&last).await;
        eventually("both wait again", SOON, || async { fixture.observer.children(&dir).await.len() == 3 }).await;
        waits(&waiter).await;
        assert_eq!(how_many_lead(&[&leader, &waiter, &last]), 1);
        let seen = edges.seen();
        assert!(seen.is_empty() || !waiter_first, "round {round}: {seen:?}");
        assert!(matches!(seen[..], [] | [Edge::Leads { .. }, Edge::LeadsNot]), "round {round}: {seen:?}");
        brief.abort();
        if let Ok(refused) = brief.await {
            assert!(refused, "round {round}: a fence of a node that is gone let a write through");
        }
    }
    assert_eq!(fixture.observer.stat(&target).await.expect("there").version, 0, "no brief leader wrote anything");
}

/// Should the latch lead, writes under its fence at once; whether that was refused.
fn fenced_write_of_a_brief_leader(latch: &LeaderLatch, client: &Client, target: &str) -> JoinHandle<bool> {
    let (mut states, client, target) = (latch.state(), client.clone(), target.to_owned());
    tokio::spawn(async move {
        loop {
            let leadership = states.get().leadership();
            if let Some(leadership) = leadership {
                return client
                    .transaction()
                    .check(&leadership.fence())
                    .set_data(&target, b"!", None)
                    .commit()
                    .await
                    .is_err();
            }
            if states.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    })
}
