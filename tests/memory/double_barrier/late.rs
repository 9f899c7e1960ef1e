//! A `ready` that is there already: that of a round that is on, or a leftover.

use std::time::Duration;

use zookeeper_recipes::CreateMode;

use super::fixture::{LIMIT, PATH, READY, enter_all, is_open, leave_all, member, members, nodes, setup, there_are};
use crate::fixture::{SOON, T, nothing_is_left, requests, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_while_the_round_is_on_is_let_in_and_waited_for() {
    let (server, clients) = setup(3).await;
    let all = members(&clients, 2);
    enter_all(&all[..2]).await;
    enter_all(&all[2..]).await;
    let mut one = Box::pin(all[0].leave());
    let mut two = Box::pin(all[1].leave());
    still_pending("the late one is inside", &mut one).await;
    still_pending("the late one is inside", &mut two).await;
    leave_all(&all[2..]).await;
    let (one, two) = within("all are out", SOON, async { tokio::join!(one, two) }).await;
    one.expect("out");
    two.expect("out");
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn a_stale_ready_opens_nothing_and_is_removed() {
    let (server, clients) = setup(2).await;
    server.create_by_hand(READY, "", CreateMode::Persistent).expect("a new node");
    let all = members(&clients, 2);
    let mut one = Box::pin(all[0].enter());
    still_pending("alone", &mut one).await;
    assert!(!is_open(&server), "it belongs to no member");
    assert!(!all[1].enter_timeout(Duration::from_millis(1)).await.is_ok_and(|entered| entered && !is_open(&server)));
    there_are(&server, 1).await;
    let (one, two) = within("both are there", SOON, async { tokio::join!(one, all[1].enter()) }).await;
    one.expect("in");
    two.expect("in");
    leave_all(&all).await;
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn the_ready_of_a_round_whose_members_all_crashed_does_not_open_the_next_one() {
    for others in 1..=3 {
        let (server, clients) = setup(2 + others).await;
        let crashing = members(&clients[..2], 2);
        enter_all(&crashing).await;
        for client in &clients[..2] {
            server.freeze_client(client);
        }
        // Until their sessions are over.
        server.until(|| nodes(&server).is_empty()).await;
        assert!(is_open(&server), "no member removes it");
        let next = members(&clients[2..], others + 1);
        let mut waiting: Vec<_> = next.iter().map(|member| Box::pin(member.enter())).collect();
        for (number, waiting) in waiting.iter_mut().enumerate() {
            still_pending(&format!("number {number} of {others}, and one more is needed"), waiting).await;
        }
        assert!(!is_open(&server));
        drop(waiting);
        there_are(&server, 0).await;
        nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    }
}

#[tokio::test(start_paused = true)]
async fn several_that_find_a_stale_ready_at_once_wait_and_then_open_a_round_of_their_own() {
    for seed in 0..50 {
        let millis = Duration::from_millis;
        let server =
            zookeeper_recipes::testing::TestingServer::builder().seed(seed).latency(millis(0)..=millis(20)).start();
        super::fixture::make_directory(&server);
        server.create_by_hand(READY, "", CreateMode::Persistent).expect("a new node");
        let stale = server.stat(READY).expect("a node").czxid;
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(server.client().await.expect("a client"));
        }
        let all = members(&clients, 4);
        {
            let mut three = Box::pin(futures::future::join_all(all[..3].iter().map(|member| member.enter())));
            still_pending("three of four", &mut three).await;
            let (three, four) = within("four", SOON, async { tokio::join!(three, all[3].enter()) }).await;
            for entered in three.into_iter().chain([four]) {
                entered.expect("in");
            }
        }
        assert!(server.stat(READY).is_some_and(|stat| stat.czxid > stale), "seed {seed}: a new one");
        leave_all(&all).await;
        nothing_is_left(&server, PATH, 0, 0, &format!("seed {seed}")).await;
    }
}

/// The members that opened the round have left or expired, and only a late one is inside. A member that comes now is
/// let in, and not counted together with the late one as a new round.
#[tokio::test(start_paused = true)]
async fn a_round_in_which_only_late_members_are_left_is_on() {
    let (server, clients) = setup(4).await;
    let all = members(&clients, 2);
    enter_all(&all[..2]).await;
    enter_all(&all[2..3]).await;
    let round = server.stat(READY).expect("open").czxid;
    for member in &all[..2] {
        assert!(!member.leave_timeout(LIMIT).await.expect("an answer"), "the late one is inside");
    }
    assert_eq!(nodes(&server).len(), 1);
    enter_all(&all[3..]).await;
    assert_eq!(server.stat(READY).map(|stat| stat.czxid), Some(round), "the same round");
    leave_all(&all[2..]).await;
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

/// The last to leave and one that comes late cross: either is waited for by the other, or is in the next round.
#[tokio::test(start_paused = true)]
async fn a_member_that_comes_while_the_last_one_leaves_is_in_that_round_or_waits_for_the_next() {
    let (mut joined, mut waited) = (0, 0);
    for seed in 0..300 {
        let millis = Duration::from_millis;
        let server =
            zookeeper_recipes::testing::TestingServer::builder().seed(seed).latency(millis(0)..=millis(10)).start();
        super::fixture::make_directory(&server);
        let (one, two) = (server.client().await.expect("a client"), server.client().await.expect("a client"));
        let (last, late) = (member(&one, 1), member(&two, 2));
        last.enter().await.expect("in");
        let came = server.spawn(&two, async move {
            let entered = late.enter_timeout(LIMIT).await.expect("an answer");
            (entered, late)
        });
        tokio::time::sleep(millis(seed % 50)).await;
        let mut leaving = Box::pin(last.leave());
        let left_first = tokio::time::timeout(SOON, &mut leaving).await;
        if let Ok(left) = left_first {
            left.expect("out");
            waited += 1;
            let (entered, _late) = within("an answer", LIMIT, came).await.expect("no panic");
            assert!(!entered, "seed {seed}: alone in the next round");
        } else {
            joined += 1;
            let (entered, late) = within("an answer", SOON, came).await.expect("no panic");
            assert!(entered, "seed {seed}: it is waited for");
            let (late, last) = within("both leave", SOON, async { tokio::join!(late.leave(), leaving) }).await;
            late.expect("out");
            last.expect("out");
        }
        nothing_is_left(&server, PATH, 0, 0, &format!("seed {seed}")).await;
    }
    assert!(joined > 20 && waited > 20, "{joined} joined, {waited} waited");
}

#[tokio::test(start_paused = true)]
async fn to_come_late_costs_two_more_requests() {
    let (server, clients) = setup(3).await;
    let all = members(&clients, 2);
    enter_all(&all[..2]).await;
    let before = clients[2].request_counts();
    enter_all(&all[2..]).await;
    let counts = clients[2].request_counts() - before;
    // Create, list, `ready`; then all others in one flight, and the transaction.
    assert_eq!((counts.total(), counts.multis), (3 + 2 + 1, 1), "{counts:?}: {:?}", requests(&server));
    leave_all(&all).await;
    tokio::time::sleep(T).await;
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}
