//! Transfers: who leads afterwards, and what is refused before anything is written.

use std::time::Duration;

use zookeeper_recipes::leader_latch::{LeaderLatch, ResignError, transfer};
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::{
    Edges, PATH, can_be_asked, latch, leads, line_becomes, line_of, name_of, node_of, revocable, revocable_line, setup,
    waits,
};
use crate::fixture::{SOON, within};

const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn the_chosen_one_leads_next_and_none_of_those_between() {
    let (server, clients) = setup::<5>().await;
    let line = revocable_line(&server, &clients, &["a", "b", "c", "d"]).await;
    let between = [&line[1], &line[2]].map(Edges::of);
    let before = leads(&line[0]).await;
    let leader = within("it is done", SOON, transfer(&clients[4], PATH, "d", WITHIN)).await.expect("transferred");
    assert_eq!((leader.id.as_str(), leader.path.clone(), leader.is_leader), ("d", node_of(&line[3]), true));
    assert!(!before.is_held());
    let leadership = leads(&line[3]).await;
    assert_eq!(leadership.fencing_token(), leader.fencing_token);
    let mut ids = line_of(&line[3]).await;
    assert_eq!((ids.remove(0).as_str(), ids.pop().as_deref(), ids.len()), ("d", Some("a"), 2));
    assert!(between.iter().all(|edges| edges.seen().is_empty()), "they stepped back first");
    assert_eq!(server.count(&clients[4], Operation::SetData), 0);
    // Two transactions: no participant is asked twice.
    assert_eq!(clients[4].request_counts().multis, 2);
}

#[tokio::test(start_paused = true)]
async fn the_next_in_line_and_the_leader_itself_need_less() {
    let (server, clients) = setup::<3>().await;
    let line = revocable_line(&server, &clients, &["a", "b"]).await;
    let leader = transfer(&clients[2], PATH, "a", WITHIN).await.expect("it leads already");
    assert_eq!((leader.id.as_str(), clients[2].request_counts().multis), ("a", 0));
    let all = line[0].participants().await.expect("read");
    let leader = within("it is done", SOON, line[0].transfer_to(&all[1], WITHIN)).await.expect("transferred");
    assert_eq!(leader.id, "b");
    line_becomes(&line[1], &["b", "a"]).await;
    // And back, by the name of its node, which is as good as its path.
    let node = can_be_asked(&server, &line[0]).await;
    let name = name_of(&node);
    let leader = within("it is done", SOON, transfer(&clients[2], PATH, name, WITHIN)).await.expect("transferred");
    assert_eq!((leader.id.as_str(), leader.path.as_str()), ("a", node.as_str()));
    leads(&line[0]).await;
    waits(&line[1]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_of_curator_and_one_that_cannot_be_asked_can_be_chosen() {
    let (server, clients) = setup::<3>().await;
    let line = revocable_line(&server, &clients, &["a", "b"]).await;
    let javas = server.create_by_hand(&format!("{PATH}/_c_x-latch-"), "java", CreateMode::PersistentSequential);
    let javas = javas.expect("created");
    let leader = within("it is done", SOON, transfer(&clients[2], PATH, "java", WITHIN)).await.expect("transferred");
    assert_eq!(leader.path, javas);
    let head = line[0].leader().await.expect("read").expect("a leader");
    assert_eq!(head.id, "java", "as getLeader() of Curator reads it");
    let plain = latch(&clients[2], "plain");
    waits(&plain).await;
    server.delete_by_hand(&javas).expect("it exists");
    let leader = within("it is done", SOON, transfer(&clients[2], PATH, "plain", WITHIN)).await.expect("transferred");
    assert_eq!(leader.id, "plain");
    leads(&plain).await;
}

/// Refuses a transfer, with nothing written.
async fn refused(server: &TestingServer, client: &Client, to: &str) -> ResignError {
    let state = || server.paths().into_iter().map(|path| (server.stat(&path), path)).collect::<Vec<_>>();
    let (before, multis) = (state(), client.request_counts().multis);
    let refused = transfer(client, PATH, to, WITHIN).await.expect_err("it is refused");
    assert_eq!((state(), client.request_counts().multis), (before, multis), "nothing is written");
    refused
}

#[tokio::test(start_paused = true)]
async fn a_line_with_one_that_cannot_be_asked_is_refused_before_anything_is_written() {
    let (server, clients) = setup::<5>().await;
    let first = revocable(&clients[0], "first", Duration::ZERO);
    can_be_asked(&server, &first).await;
    let javas = server.create_by_hand(&format!("{PATH}/_c_x-latch-"), "java", CreateMode::PersistentSequential);
    let javas = javas.expect("created");
    let plain = latch(&clients[1], "plain");
    waits(&plain).await;
    let last = revocable(&clients[2], "last", Duration::ZERO);
    can_be_asked(&server, &last).await;
    let error = refused(&server, &clients[4], "last").await;
    let both = [javas.clone(), node_of(&plain)];
    assert!(matches!(&error, ResignError::NotRevocable { participants, .. } if *participants == both), "{error}");
    // The leader counts as well.
    first.close().await.expect("closed");
    server.delete_by_hand(&javas).expect("it exists");
    leads(&plain).await;
    let error = refused(&server, &clients[4], "last").await;
    assert!(
        matches!(&error, ResignError::NotRevocable { participants, .. } if *participants == [node_of(&plain)]),
        "{error}"
    );
    assert!(plain.has_leadership());
}

#[tokio::test(start_paused = true)]
async fn an_id_that_none_or_several_have_is_refused() {
    let (server, clients) = setup::<4>().await;
    let line: Vec<LeaderLatch> = revocable_line(&server, &clients, &["a", "twin", "twin"]).await;
    let error = refused(&server, &clients[3], "none").await;
    assert!(matches!(error, ResignError::NotFound { .. }), "{error}");
    let error = refused(&server, &clients[3], "twin").await;
    let twins = [node_of(&line[1]), node_of(&line[2])];
    assert!(matches!(&error, ResignError::Ambiguous { participants, .. } if *participants == twins), "{error}");
    let leader = transfer(&clients[3], PATH, &twins[1], WITHIN).await.expect("transferred");
    assert_eq!(leader.path, twins[1]);
    assert!(transfer(&clients[3], "no path", "a", WITHIN).await.is_err());
    let empty = transfer(&clients[3], PATH, "", WITHIN).await.expect_err("it names none");
    assert!(matches!(&empty, ResignError::Latch(_)) && empty.to_string().contains("has no id"), "{empty}");
    let empty = transfer(&clients[3], "/elsewhere", "a", WITHIN).await.expect_err("there is no election");
    assert!(matches!(empty, ResignError::NotFound { .. }), "{empty}");
}
