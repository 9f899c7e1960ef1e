//! Nodes deleted by hand: the leader's, a waiter's, both at once, the whole directory.

use std::time::Duration;

use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{
    Edge, Edges, Heard, PATH, behind_two, hears, latch, leads, leads_in_the_end, line_becomes, make_directory,
    no_latch_leads_for, node_of, reaches, recorder, setup, waits,
};
use crate::fixture::{SOON, T, within};

fn how_many_lead(latches: &[&LeaderLatch]) -> usize {
    latches.iter().filter(|latch| latch.has_leadership()).count()
}

/// The line `leader`, `waiter`, `last`, each of a client of its own.
async fn line_of_three() -> (TestingServer, [Client; 3], [LeaderLatch; 3]) {
    let (server, clients) = setup().await;
    let leader = latch(&clients[0], "leader");
    leads(&leader).await;
    let waiter = latch(&clients[1], "waiter");
    waits(&waiter).await;
    let last = latch(&clients[2], "last");
    waits(&last).await;
    (server, clients, [leader, waiter, last])
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_node_is_deleted_hears_of_it_and_its_fence_is_refused_at_once() {
    const REPORT: &str = "/report";
    let (server, [client, ..], [old, new, last]) = line_of_three().await;
    server.create_by_hand(REPORT, "old", CreateMode::Persistent).expect("a new node");
    let (listener, mut heard) = recorder();
    old.add_listener(listener);
    let leadership = leads(&old).await;
    let token = leadership.fencing_token();
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    let node = node_of(&old);
    let written = client.transaction().check(&leadership.fence()).set_data(REPORT, b"led", None);
    written.commit().await.expect("a leader writes");

    server.delete_by_hand(&node).expect("it exists");
    let late = client.transaction().check(&leadership.fence()).set_data(REPORT, b"late", None);
    let refused = late.commit().await.expect_err("its node is gone");
    assert!(matches!(refused.kind(), ErrorKind::Fenced | ErrorKind::SessionLost), "{refused}");
    assert_eq!(server.get(REPORT).as_deref(), Some(&b"led"[..]));

    within("the old leader is told", SOON, leadership.lost()).await;
    assert!(!leadership.is_held());
    assert_eq!(hears(&mut heard).await, Heard::NotLeader);
    assert!(leads(&new).await.fencing_token() > token);
    // It enters again, at the back and with another node.
    line_becomes(&new, &["waiter", "last", "leader"]).await;
    let again = waits(&old).await;
    assert_ne!(again, node);
    // Nothing moves any more.
    no_latch_leads_for(SOON, &[&old, &last]).await;
    assert_eq!(how_many_lead(&[&old, &new, &last]), 1);
    let still = client.transaction().check(&leadership.fence()).set_data(REPORT, b"late", None);
    assert_eq!(still.commit().await.expect_err("it stays refused").kind(), ErrorKind::Fenced);

    new.close().await.expect("closed");
    last.close().await.expect("closed");
    let regained = leads(&old).await;
    assert!(regained.fencing_token() > token);
    assert!(!leadership.is_held(), "a lost leadership stays lost");
}

#[tokio::test(start_paused = true)]
async fn the_only_participant_whose_node_is_deleted_leads_again_with_another_node() {
    let (server, [client]) = setup().await;
    let latch = latch(&client, "alone");
    let mut newest = 0;
    for _ in 0..3 {
        let leadership = leads_in_the_end(&latch).await;
        assert!(leadership.fencing_token() > newest);
        newest = leadership.fencing_token();
        server.delete_by_hand(&node_of(&latch)).expect("it exists");
        within("it is told", SOON, leadership.lost()).await;
    }
    leads_in_the_end(&latch).await;
    assert_eq!(server.children(PATH).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_node_is_deleted_promotes_no_participant_and_rejoins_at_the_back() {
    let (server, _clients, [leader, waiter, last]) = line_of_three().await;
    let node = node_of(&waiter);
    server.delete_by_hand(&node).expect("it exists");
    // A wrong promotion would come with one of the two events of the deletion.
    no_latch_leads_for(SOON, &[&waiter, &last]).await;
    assert!(leader.has_leadership());
    line_becomes(&leader, &["leader", "last", "waiter"]).await;
    assert_ne!(waits(&waiter).await, node);

    leader.close().await.expect("closed");
    leads(&last).await;
    assert!(!waiter.has_leadership());
    last.close().await.expect("closed");
    leads(&waiter).await;
}

/// One transaction deletes the leader's node and the waiter's, in both orders.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_deleted_together_with_the_leader_gets_no_leadership_that_stands() {
    for waiter_first in [true, false] {
        let (server, clients, [leader, waiter, last]) = line_of_three().await;
        let edges = Edges::of(&waiter);
        let [leading, waiting] = [&leader, &waiter].map(node_of);
        let [one, other] = if waiter_first { [&waiting, &leading] } else { [&leading, &waiting] };
        let both = clients[2].transaction().delete(one, None).delete(other, None);
        both.commit().await.expect("both are deleted");

        within("the last one leads", SOON, leads(&last)).await;
        server.until(|| server.children(PATH).len() == 3).await;
        waits(&waiter).await;
        assert_eq!(how_many_lead(&[&leader, &waiter, &last]), 1);
        let seen = edges.seen();
        assert!(seen.is_empty() || !waiter_first, "{seen:?}");
        assert!(matches!(seen[..], [] | [Edge::Leads { .. }, Edge::LeadsNot]), "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_whole_directory_is_wiped_all_enter_again_and_one_leads() {
    let (server, [client, ..], [leader, waiter, last]) = line_of_three().await;
    let before = leads(&leader).await;
    let wiping = server
        .children(PATH)
        .into_iter()
        .fold(client.transaction(), |wiping, name| wiping.delete(&format!("{PATH}/{name}"), None));
    wiping.delete(PATH, None).commit().await.expect("all is wiped");

    within("the old leader is told", SOON, before.lost()).await;
    let all = [&leader, &waiter, &last];
    server.until(|| server.children(PATH).len() == 3 && how_many_lead(&all) == 1).await;
    let head = leader.leader().await.expect("read").expect("a leader");
    assert!(server.stat(&head.path).is_some());
    let first = all.iter().find(|latch| latch.has_leadership()).expect("one leads");
    assert_eq!(first.our_path(), Some(head.path));
    assert!(leads(first).await.fencing_token() > before.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_again_and_again_is_made_again_ever_more_slowly() {
    let (server, [client]) = setup().await;
    let latch = latch(&client, "again");
    leads(&latch).await;
    let before = client.request_counts();
    let end = tokio::time::Instant::now() + Duration::from_secs(2);
    // Whatever appears is deleted at once.
    while tokio::time::Instant::now() < end {
        for name in server.children(PATH) {
            server.delete_by_hand(&format!("{PATH}/{name}")).expect("it exists");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let creates = (client.request_counts() - before).creates;
    // 25-50 ms, then twice as long each time: at most 6 within two seconds.
    assert!((2..=7).contains(&creates), "{creates} creates");
    let edges = Edges::of(&latch);
    leads_in_the_end(&latch).await;
    let is_last = || matches!(edges.seen().last(), Some(Edge::Leads { .. }));
    within("its last node stays", T, server.until(|| is_last() && server.children(PATH).len() == 1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_directory_deleted_while_a_waiter_lists_it_is_created_again_without_a_failure() {
    let server = TestingServer::builder().latency(Duration::from_millis(5)..=Duration::from_millis(5)).start();
    let client = server.client().await.expect("a client");
    let (latch, before) = behind_two(&server, &client).await;
    let lists = server.count(&client, Operation::List);
    server.delete_by_hand(&before[1]).expect("it exists");
    server.until(|| server.count(&client, Operation::List) > lists).await;
    // The list is on its way.
    for node in server.children(PATH) {
        server.delete_by_hand(&format!("{PATH}/{node}")).expect("it exists");
    }
    server.delete_by_hand(PATH).expect("it is empty");
    let mut states = latch.state();
    let led = tokio::time::timeout(SOON, async {
        loop {
            let status = states.get().status();
            assert_ne!(status, LatchStatus::Failed, "nothing is wrong");
            if status == LatchStatus::Leading {
                return;
            }
            states.changed().await.expect("the latch is open");
        }
    });
    led.await.expect("it leads in its new place, with no delay after a failure");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_further_back_whose_node_is_deleted_finds_out_when_the_one_before_it_goes() {
    let server = TestingServer::start();
    make_directory(&server);
    let mut latches = Vec::new();
    for _ in 0..4 {
        let client = server.client().await.expect("a client");
        let latch = latch(&client, "latch");
        reaches(&latch, if latches.is_empty() { LatchStatus::Leading } else { LatchStatus::Waiting }).await;
        latches.push(latch);
    }
    let node = latches[2].our_path().expect("it has a node");
    server.delete_by_hand(&node).expect("it exists");
    // The one behind it lists the nodes, and is behind the second now.
    tokio::time::sleep(SOON).await;
    assert_eq!(server.children(PATH).len(), 3);
    let mut latches = latches.into_iter();
    let (first, second, third, last) =
        (latches.next().unwrap(), latches.next().unwrap(), latches.next().unwrap(), latches.next().unwrap());
    first.close().await.expect("closed");
    reaches(&second, LatchStatus::Leading).await;
    second.close().await.expect("closed");
    // Both had the second before them. The last of the line leads, and the third enters again behind it.
    reaches(&last, LatchStatus::Leading).await;
    server.until(|| server.children(PATH).len() == 2).await;
    assert!(!third.has_leadership());
    assert_ne!(third.our_path(), Some(node));
    last.close().await.expect("closed");
    reaches(&third, LatchStatus::Leading).await;
}
