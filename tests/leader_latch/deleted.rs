//! Nodes deleted by hand: the leader's, a waiter's, both at once, the whole directory.

use std::time::Duration;

use tokio::task::JoinHandle;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{Client, ErrorKind};

use super::scene::{
    A_WHILE, Edge, Edges, Heard, SOON, Scene, ear, hears, latch, leads, leads_in_the_end, line_becomes, name_of,
    nobody_leads_for, stands,
};
use crate::support::{eventually, unique_path, within};

fn how_many_lead(latches: &[&LeaderLatch]) -> usize {
    latches.iter().filter(|latch| latch.has_leadership()).count()
}

/// The line `leader`, `waiter`, `last`, each of a client of its own.
async fn line_of_three(scene: &Scene) -> (Client, [LeaderLatch; 3]) {
    let client = scene.client().await;
    let leader = scene.latch(&client, "leader");
    leads(&leader).await;
    let waiter = scene.latch(&scene.client().await, "waiter");
    stands(&waiter).await;
    let last = scene.latch(&scene.client().await, "last");
    stands(&last).await;
    (client, [leader, waiter, last])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_node_is_deleted_hears_of_it_and_its_fence_is_refused_at_once() {
    let scene = Scene::new("own").await;
    let (client, [old, new, last]) = line_of_three(&scene).await;
    let report = unique_path("report");
    scene.observer.create(&report, b"old").await;
    let (listener, mut heard) = ear();
    old.add_listener(listener);
    let leadership = leads(&old).await;
    let token = leadership.fencing_token();
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    let node = old.our_path().expect("a leader has a node");
    let written = client.transaction().check(&leadership.fence()).set_data(&report, b"led", None);
    written.commit().await.expect("a leader writes");

    scene.observer.delete(&node).await;
    let late = client.transaction().check(&leadership.fence()).set_data(&report, b"late", None);
    let refused = late.commit().await.expect_err("its node is gone");
    assert!(matches!(refused.kind(), ErrorKind::Fenced | ErrorKind::SessionLost), "{refused}");
    assert_eq!(scene.observer.data(&report).await.as_deref(), Some(&b"led"[..]));

    within("the old leader is told", SOON, leadership.lost()).await;
    assert!(!leadership.is_held());
    assert_eq!(hears(&mut heard).await, Heard::NotLeader);
    assert!(leads(&new).await.fencing_token() > token);
    // It stands in line again, at the back and with another node.
    line_becomes(&new, &["waiter", "last", "leader"]).await;
    let again = stands(&old).await;
    assert_ne!(again, node);
    // Nothing moves any more.
    nobody_leads_for(A_WHILE, &[&old, &last]).await;
    assert_eq!(how_many_lead(&[&old, &new, &last]), 1);
    let still = client.transaction().check(&leadership.fence()).set_data(&report, b"late", None);
    assert_eq!(still.commit().await.expect_err("it stays refused").kind(), ErrorKind::Fenced);

    new.close().await.expect("closed");
    last.close().await.expect("closed");
    let regained = leads(&old).await;
    assert!(regained.fencing_token() > token);
    assert!(!leadership.is_held(), "what was lost stays lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_participant_whose_node_is_deleted_leads_again_with_another_node() {
    let scene = Scene::with_directory("alone").await;
    let latch = scene.latch(&scene.client().await, "alone");
    let mut newest = 0;
    for _ in 0..3 {
        let leadership = leads_in_the_end(&latch).await;
        assert!(leadership.fencing_token() > newest);
        newest = leadership.fencing_token();
        scene.observer.delete(&latch.our_path().expect("a leader has a node")).await;
        within("it is told", SOON, leadership.lost()).await;
    }
    leads_in_the_end(&latch).await;
    assert_eq!(scene.nodes().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_node_is_deleted_promotes_nobody_and_goes_to_the_back() {
    let scene = Scene::new("waiter").await;
    let (_client, [leader, waiter, last]) = line_of_three(&scene).await;
    let node = waiter.our_path().expect("a waiter has a node");
    scene.observer.delete(&node).await;
    // A wrong promotion would come with one of the two events of the deletion.
    nobody_leads_for(A_WHILE, &[&waiter, &last]).await;
    assert!(leader.has_leadership());
    line_becomes(&leader, &["leader", "last", "waiter"]).await;
    assert_ne!(stands(&waiter).await, node);

    leader.close().await.expect("closed");
    leads(&last).await;
    assert!(!waiter.has_leadership());
    last.close().await.expect("closed");
    leads(&waiter).await;
}

/// One transaction deletes the leader's node and the waiter's. The events come in the order of the deletions: the waiter's
/// own first, and it never leads; the leader's first, and it may for the length of a notification believe to lead, with a
/// node that is gone already, so with a fence that does not stand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_is_deleted_together_with_the_leader_gets_no_leadership_that_stands() {
    let scene = Scene::new("both").await;
    let clients = [scene.client().await, scene.client().await, scene.client().await];
    let target = unique_path("both-target");
    scene.observer.create(&target, b"").await;
    for round in 0..60 {
        let dir = unique_path("both");
        scene.observer.create(&dir, b"").await;
        let leader = latch(&clients[0], &dir, "leader");
        leads(&leader).await;
        let waiter = latch(&clients[1], &dir, "waiter");
        stands(&waiter).await;
        let last = latch(&clients[2], &dir, "last");
        stands(&last).await;
        let edges = Edges::of(&waiter);
        let brief = fenced_write_of_a_brief_leader(&waiter, &clients[1], &target);
        let nodes = [&leader, &waiter].map(|latch| latch.our_path().expect("both have nodes"));
        let mut writer = scene.observer.client().new_multi_writer();
        let waiter_first = round % 2 == 0;
        for number in if waiter_first { [1, 0] } else { [0, 1] } {
            writer.add_delete(&nodes[number], None).expect("a delete");
        }
        writer.commit().await.expect("both are deleted");

        leads(&last).await;
        eventually("both stand in line again", SOON, || async { scene.observer.children(&dir).await.len() == 3 }).await;
        stands(&waiter).await;
        assert_eq!(how_many_lead(&[&leader, &waiter, &last]), 1);
        let seen = edges.seen();
        assert!(seen.is_empty() || !waiter_first, "round {round}: {seen:?}");
        assert!(matches!(seen[..], [] | [Edge::Leads { .. }, Edge::LeadsNot]), "round {round}: {seen:?}");
        brief.abort();
        if let Ok(refused) = brief.await {
            assert!(refused, "round {round}: a fence of a node that is gone let a write through");
        }
    }
    assert_eq!(scene.observer.stat(&target).await.expect("there").version, 0, "no brief leader wrote anything");
}

/// Should the latch lead, writes under its fence at once; whether that was refused.
fn fenced_write_of_a_brief_leader(latch: &LeaderLatch, client: &Client, target: &str) -> JoinHandle<bool> {
    let (mut states, client, target) = (latch.state(), client.clone(), target.to_owned());
    tokio::spawn(async move {
        loop {
            let leadership = states.borrow_and_update().leadership();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_whole_directory_is_wiped_all_enter_again_and_one_leads() {
    let scene = Scene::new("wiped").await;
    let (_client, [leader, waiter, last]) = line_of_three(&scene).await;
    let before = leads(&leader).await;
    let mut writer = scene.observer.client().new_multi_writer();
    for name in scene.nodes().await {
        writer.add_delete(&format!("{}/{name}", scene.path), None).expect("a delete");
    }
    writer.add_delete(&scene.path, None).expect("a delete");
    writer.commit().await.expect("all is wiped");

    within("the old leader is told", SOON, before.lost()).await;
    let names = scene.observer.wait_for_children(&scene.path, 3).await;
    let all = [&leader, &waiter, &last];
    eventually("one leads again", SOON, || async { how_many_lead(&all) == 1 }).await;
    let head = leader.leader().await.expect("read").expect("a leader");
    assert!(names.contains(&name_of(&head.path).to_owned()));
    let first = all.iter().find(|latch| latch.has_leadership()).expect("one leads");
    assert_eq!(first.our_path(), Some(head.path));
    assert!(leads(first).await.fencing_token() > before.fencing_token());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_deleted_again_and_again_is_made_anew_ever_more_slowly() {
    let scene = Scene::with_directory("again").await;
    let client = scene.client().await;
    let latch = latch(&client, &scene.path, "again");
    leads(&latch).await;
    let before = client.request_counts();
    let end = tokio::time::Instant::now() + Duration::from_secs(2);
    // Whatever appears is deleted at once.
    while tokio::time::Instant::now() < end {
        for name in scene.nodes().await {
            scene.observer.delete(&format!("{}/{name}", scene.path)).await;
        }
    }
    let creates = (client.request_counts() - before).creates;
    // 25-50 ms, then twice as long each time: at most 6 within two seconds.
    assert!((2..=7).contains(&creates), "{creates} creates");
    let edges = Edges::of(&latch);
    leads_in_the_end(&latch).await;
    eventually("its last node stays", SOON, || async {
        matches!(edges.seen().last(), Some(Edge::Leads { .. })) && scene.nodes().await.len() == 1
    })
    .await;
}
