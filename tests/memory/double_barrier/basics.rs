//! The basic behaviour of a double barrier.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zookeeper_recipes::double_barrier::{DoubleBarrier, Error};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{
    PATH, READY, enter_all, is_open, leave_all, make_directory, member, members, nodes, setup, there_are,
};
use crate::fixture::{SOON, nothing_is_left, still_pending, within};

#[tokio::test(start_paused = true)]
async fn no_member_enters_before_all_are_there_or_leaves_before_all_are_done() {
    let (server, clients) = setup(3).await;
    let all = members(&clients, 3);
    let mut one = Box::pin(all[0].enter());
    let mut two = Box::pin(all[1].enter());
    still_pending("one alone", &mut one).await;
    still_pending("two of three", &mut two).await;
    still_pending("two of three", &mut one).await;
    let (one, two, three) = within("three", SOON, async { tokio::join!(one, two, all[2].enter()) }).await;
    one.expect("in");
    two.expect("in");
    three.expect("in");
    assert!(is_open(&server));
    let mut one = Box::pin(all[0].leave());
    let mut two = Box::pin(all[1].leave());
    still_pending("the others are inside", &mut one).await;
    still_pending("the third is inside", &mut two).await;
    still_pending("the third is inside", &mut one).await;
    let (one, two, three) = within("all leave", SOON, async { tokio::join!(one, two, all[2].leave()) }).await;
    one.expect("out");
    two.expect("out");
    three.expect("out");
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn the_nodes_are_curators() {
    let (server, clients) = setup(2).await;
    let all = [
        DoubleBarrier::builder(&clients[0], PATH, 2).data("one").build().expect("good options"),
        member(&clients[1], 2),
    ];
    enter_all(&all).await;
    let stat = server.stat(READY).expect("a round is open");
    assert_eq!((stat.ephemeral_owner, stat.data_length), (0, 0), "persistent, and empty");
    let mut owners = Vec::new();
    for name in nodes(&server) {
        assert_eq!(name.len(), 36, "{name}");
        assert!(name.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{name}");
        let path = format!("{PATH}/{name}");
        let owner = server.stat(&path).expect("a node").ephemeral_owner;
        owners.push((Some(owner), server.get(&path).expect("a node")));
    }
    owners.sort();
    let mut expected = vec![(clients[0].session_id(), b"one".to_vec()), (clients[1].session_id(), Vec::new())];
    expected.sort();
    assert_eq!(owners, expected);
    leave_all(&all).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_rounds_on_the_same_objects() {
    const ROUNDS: usize = 1_000;
    let (server, clients) = setup(4).await;
    let inside: Arc<[AtomicUsize]> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    let tasks: Vec<_> = clients
        .iter()
        .map(|client| {
            let (barrier, inside) = (member(client, 4), Arc::clone(&inside));
            server.spawn(client, async move {
                for round in 0..ROUNDS {
                    barrier.enter().await.expect("entered");
                    inside[round].fetch_add(1, Ordering::SeqCst);
                    if round > 0 {
                        assert_eq!(inside[round - 1].load(Ordering::SeqCst), 4, "all were in the last one");
                    }
                    barrier.leave().await.expect("left");
                    assert_eq!(inside[round].load(Ordering::SeqCst), 4, "all were in, so all have left");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    assert!(server.panics().is_empty(), "{:?}", server.panics());
    assert!(inside.iter().all(|inside| inside.load(Ordering::SeqCst) == 4));
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn one_member_of_one_passes_alone() {
    let (server, clients) = setup(1).await;
    let all = members(&clients, 1);
    for _ in 0..3 {
        enter_all(&all).await;
        assert!(is_open(&server));
        leave_all(&all).await;
    }
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn two_members_may_share_a_client() {
    let (server, clients) = setup(1).await;
    let all = [member(&clients[0], 2), member(&clients[0], 2)];
    for _ in 0..3 {
        enter_all(&all).await;
        leave_all(&all).await;
    }
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn more_members_than_asked_for_enter_and_leave_together() {
    for extra in 1..=3 {
        let (server, clients) = setup(5 + extra).await;
        let all = members(&clients, 5);
        for _ in 0..5 {
            enter_all(&all).await;
            leave_all(&all).await;
        }
        nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_call_on_one_object_is_an_error_and_does_not_disturb_the_first() {
    let (_server, clients) = setup(2).await;
    let (one, two) = (member(&clients[0], 2), member(&clients[1], 2));
    let error = one.leave().await.expect_err("outside");
    assert!(matches!(error, Error::NotInside { .. }), "{error:?}");
    let mut entering = Box::pin(one.enter());
    still_pending("alone", &mut entering).await;
    for error in [one.enter().await, one.leave().await].map(|busy| busy.expect_err("busy")) {
        assert!(matches!(error, Error::Busy { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(!error.is_retryable() && !error.is_lost());
    }
    let (first, second) = within("both enter", SOON, async { tokio::join!(entering, two.enter()) }).await;
    first.expect("in");
    second.expect("in");
    let error = one.enter_timeout(SOON).await.expect_err("inside");
    assert!(matches!(error, Error::AlreadyInside { .. }), "{error:?}");
    let mut leaving = Box::pin(one.leave());
    still_pending("the other is inside", &mut leaving).await;
    assert!(matches!(one.leave_timeout(SOON).await, Err(Error::Busy { .. })));
    assert!(matches!(one.enter().await, Err(Error::Busy { .. })));
    let (first, second) = within("both leave", SOON, async { tokio::join!(leaving, two.leave()) }).await;
    first.expect("out");
    second.expect("out");
}

#[tokio::test(start_paused = true)]
async fn a_curator_member_and_ours_meet_whichever_opens_the_round() {
    for curator_opens in [true, false] {
        let (server, clients) = setup(1).await;
        let ours = member(&clients[0], 2);
        let curators = format!("{PATH}/ffffffff-2222-3333-4444-555555555555");
        let by_hand = |path: &str| server.create_by_hand(path, "10.0.0.1", CreateMode::Persistent).expect("a new node");
        if !curator_opens {
            by_hand(&curators);
        }
        let mut entering = Box::pin(ours.enter());
        if curator_opens {
            still_pending("alone", &mut entering).await;
            by_hand(&curators);
            still_pending("no member has opened the round", &mut entering).await;
            by_hand(READY);
        }
        within("both are there", SOON, entering).await.expect("in");
        assert!(is_open(&server));
        let mut leaving = Box::pin(ours.leave());
        still_pending("Curator's is inside", &mut leaving).await;
        // As Curator leaves: it deletes its node, and then `ready`, even if members remain.
        server.delete_by_hand(&curators).expect("it exists");
        let _ = server.delete_by_hand(READY);
        within("both have left", SOON, leaving).await.expect("out");
        nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_for_each_round_keeps_the_next_round_out_of_the_list_of_a_curator_member_that_leaves() {
    for (next_path, is_shared) in [(PATH, true), ("/jobs/next", false)] {
        let (server, clients) = setup(1).await;
        let curators = format!("{PATH}/ffffffff-2222-3333-4444-555555555555");
        server.create_by_hand(&curators, "10.0.0.1", CreateMode::Persistent).expect("a new node");
        let ours = member(&clients[0], 2);
        within("both are there", SOON, ours.enter()).await.expect("in");
        let mut leaving = Box::pin(ours.leave());
        still_pending("Curator's is inside", &mut leaving).await;
        server.delete_by_hand(&curators).expect("it exists");
        let _ = server.delete_by_hand(READY);
        within("both have left", SOON, leaving).await.expect("out");

        // Curator's member lists once more, and returns from `leave` only if it sees no member.
        let next = DoubleBarrier::new(&clients[0], next_path, 2).expect("good options");
        let mut entering = Box::pin(next.enter());
        still_pending("Curator's has not entered the next round", &mut entering).await;
        assert_eq!(nodes(&server).len(), usize::from(is_shared), "{next_path}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_barriers_node_holds_is_kept() {
    let (server, clients) = setup(2).await;
    server.set_data_by_hand(PATH, "mine").expect("it exists");
    let all = members(&clients, 2);
    for _ in 0..3 {
        enter_all(&all).await;
        assert_eq!(server.get(PATH).as_deref(), Some(&b"mine"[..]));
        leave_all(&all).await;
    }
    assert_eq!(server.get(PATH).as_deref(), Some(&b"mine"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_barrier_whose_node_is_missing_makes_it_a_container_also_in_a_namespace() {
    let server = TestingServer::start();
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(Client::builder_for_testing(&server).namespace("/app").connect().await.expect("a client"));
    }
    let all: Vec<_> =
        clients.iter().map(|client| DoubleBarrier::new(client, "/deep/er/barrier", 2).expect("good")).collect();
    enter_all(&all).await;
    assert_eq!(server.children("/app/deep/er/barrier").len(), 3);
    assert_eq!(all[0].path(), "/deep/er/barrier");
    assert_eq!(all[0].members(), 2);
    leave_all(&all).await;
    server.until(|| server.stat("/app").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_dropped_inside_has_left() {
    let (server, clients) = setup(2).await;
    let mut all = members(&clients, 2);
    enter_all(&all).await;
    drop(all.pop());
    leave_all(&all).await;
    enter_and_drop_last(&server, &clients).await;
}

/// The last one inside is dropped, too: nothing is left all the same.
async fn enter_and_drop_last(server: &TestingServer, clients: &[Client]) {
    let all = members(clients, 2);
    enter_all(&all).await;
    drop(all);
    there_are(server, 0).await;
    nothing_is_left(server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn members_on_lagging_servers_go_through_many_rounds() {
    for seed in 0..20 {
        let lag = Duration::ZERO..=Duration::from_millis(200);
        let server = TestingServer::builder().seed(seed).servers(3).lag(lag).start();
        make_directory(&server);
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(server.client().await.expect("a client"));
        }
        let tasks: Vec<_> = clients
            .iter()
            .map(|client| {
                let barrier = member(client, 3);
                server.spawn(client, async move {
                    for _ in 0..10 {
                        // With more members than it takes, the last ones may be too few to enter.
                        if !barrier.enter_timeout(Duration::from_secs(20)).await.expect("an answer") {
                            return;
                        }
                        barrier.leave().await.expect("left");
                    }
                })
            })
            .collect();
        for task in tasks {
            within("it comes to an end", Duration::from_secs(200), task).await.expect("no panic");
        }
        nothing_is_left(&server, PATH, 0, 0, &format!("seed {seed}")).await;
    }
}
