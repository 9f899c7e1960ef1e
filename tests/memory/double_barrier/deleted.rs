//! Nodes are deleted by hand.

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::double_barrier::Error;

use super::fixture::{PATH, READY, enter_all, is_open, leave_all, members, nodes, setup, there_are};
use crate::fixture::{SOON, T, nothing_is_left, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_node_is_deleted_makes_a_new_one_and_is_counted() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    let mut one = Box::pin(all[0].enter());
    for _ in 0..3 {
        // By then it watches its node.
        assert!(tokio::time::timeout(SOON * 2, &mut one).await.is_err(), "alone");
        let [node] = &nodes(&server)[..] else { panic!("one node") };
        server.delete_by_hand(&format!("{PATH}/{node}")).expect("it exists");
        still_pending("alone", &mut one).await;
        assert_eq!(nodes(&server).len(), 1);
        assert_ne!(&nodes(&server)[0], node);
    }
    let (one, two) = within("both", SOON, async { tokio::join!(one, all[1].enter()) }).await;
    one.expect("in");
    two.expect("in");
    leave_all(&all).await;
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_deleted_right_after_it_was_made_is_missed_soon() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    let delete = async {
        there_are(&server, 1).await;
        let node = nodes(&server).remove(0);
        server.delete_by_hand(&format!("{PATH}/{node}")).expect("it exists");
    };
    let other = async {
        tokio::time::sleep(T).await;
        all[1].enter().await
    };
    let entered = within("both", T * 2, async { tokio::join!(all[0].enter(), delete, other) }).await;
    entered.0.expect("in");
    entered.2.expect("in");
    leave_all(&all).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_node_is_deleted_inside_is_told_when_it_leaves_and_the_others_do_not_wait_for_it() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    for _ in 0..2 {
        enter_all(&all).await;
        let owner = clients[0].session_id();
        let name = nodes(&server).into_iter().find(|name| {
            server.stat(&format!("{PATH}/{name}")).is_some_and(|stat| Some(stat.ephemeral_owner) == owner)
        });
        let path = format!("{PATH}/{}", name.expect("its node"));
        server.delete_by_hand(&path).expect("it exists");
        within("alone", SOON, all[1].leave()).await.expect("out");
        let error = within("an answer", SOON, all[0].leave()).await.expect_err("its node is gone");
        assert!(matches!(&error, Error::NodeDeleted { node, .. } if **node == path), "{error:?}");
        assert!(error.kind() == ErrorKind::NoNode && error.is_lost());
        nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_ready_deleted_by_hand_lets_no_member_leave_early() {
    for while_leaving in [true, false] {
        let (server, clients) = setup(3).await;
        let all = members(&clients, 3);
        enter_all(&all).await;
        if !while_leaving {
            server.delete_by_hand(READY).expect("it exists");
        }
        let mut leaving = Box::pin(async { tokio::join!(all[0].leave(), all[1].leave()) });
        still_pending("the third is inside", &mut leaving).await;
        if while_leaving {
            server.delete_by_hand(READY).expect("it exists");
            still_pending("the third is inside", &mut leaving).await;
        }
        let left = within("all leave", SOON, async { tokio::join!(leaving, all[2].leave()) }).await;
        left.0.0.expect("out");
        left.0.1.expect("out");
        left.1.expect("out");
        nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_lowest_or_the_highest_deleted_while_all_leave_is_not_waited_for() {
    for lowest in [true, false] {
        let (server, clients) = setup(3).await;
        let all = members(&clients, 3);
        enter_all(&all).await;
        let names = nodes(&server);
        let name = if lowest { &names[0] } else { &names[2] };
        let path = format!("{PATH}/{name}");
        let owner = server.stat(&path).expect("a node").ephemeral_owner;
        let victim = clients.iter().position(|client| client.session_id() == Some(owner)).expect("a client");
        let others: Vec<_> = (0..3).filter(|number| *number != victim).collect();
        let mut leaving = Box::pin(async { tokio::join!(all[others[0]].leave(), all[others[1]].leave()) });
        still_pending("the third is inside", &mut leaving).await;
        server.delete_by_hand(&path).expect("it exists");
        let (one, two) = within("the rest leaves", SOON, leaving).await;
        one.expect("out");
        two.expect("out");
        assert!(!is_open(&server), "the round is over");
        all[victim].leave().await.expect_err("its node was deleted");
        nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
    }
}

/// It would wait for one who waits for the next round.
#[tokio::test(start_paused = true)]
async fn a_leaver_whose_node_is_deleted_is_told_soon_whatever_members_remain() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    enter_all(&all).await;
    let mut leaving: Vec<_> = all.iter().map(|member| Box::pin(member.leave())).collect();
    let lowest = nodes(&server)[0].clone();
    let owner = server.stat(&format!("{PATH}/{lowest}")).expect("a node").ephemeral_owner;
    let victim = clients.iter().position(|client| client.session_id() == Some(owner)).expect("a client");
    // A node of another client, which stays.
    let other = format!("{PATH}/ffffffff-2222-3333-4444-555555555555");
    server.create_by_hand(&other, "", zookeeper_recipes::CreateMode::Persistent).expect("a new node");
    let mut waiting = leaving.remove(victim);
    assert!(tokio::time::timeout(SOON * 2, &mut waiting).await.is_err(), "others are there");
    server.delete_by_hand(&format!("{PATH}/{lowest}")).expect("it exists");
    let error = within("it is told", SOON, waiting).await.expect_err("its node is gone");
    assert!(matches!(error, Error::NodeDeleted { .. }), "{error:?}");
    server.delete_by_hand(&other).expect("it exists");
    within("the other leaves", SOON, leaving.remove(0)).await.expect("out");
    nothing_is_left(&server, PATH, 0, 0, "afterwards").await;
}

/// Between its listing, in which its node still is, and its delete, which finds none.
#[tokio::test(start_paused = true)]
async fn a_leaver_whose_node_is_deleted_does_not_take_the_next_round_for_its_own() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    enter_all(&all).await;
    let path = format!("{PATH}/{}", nodes(&server)[1]);
    let owner = server.stat(&path).expect("a node").ephemeral_owner;
    let victim = clients.iter().position(|client| client.session_id() == Some(owner)).expect("a client");
    let other = &all[1 - victim];
    let slow = std::time::Duration::from_millis(500);
    server.delay(&clients[victim], slow);
    let mut leaving = Box::pin(all[victim].leave());
    assert!(tokio::time::timeout(slow + slow / 2, &mut leaving).await.is_err(), "its listing is under way");
    server.delete_by_hand(&path).expect("it exists");
    within("alone", SOON, other.leave()).await.expect("out");
    let mut next = Box::pin(other.enter());
    still_pending("the first is not back", &mut next).await;
    assert!(nodes(&server).len() == 1 && !is_open(&server), "it waits for the next round");
    within("its round is over", T, leaving).await.expect("out");
}

#[tokio::test(start_paused = true)]
async fn a_barrier_that_is_deleted_with_all_in_it_is_made_again() {
    let (server, clients) = setup(2).await;
    let all = members(&clients, 2);
    let mut one = Box::pin(all[0].enter());
    assert!(tokio::time::timeout(SOON * 2, &mut one).await.is_err(), "alone");
    // As nothing comes between the two, the new node is made in a new directory.
    server.delete_by_hand(&format!("{PATH}/{}", nodes(&server)[0])).expect("it exists");
    server.delete_by_hand(PATH).expect("it is empty");
    let (one, two) = within("both", SOON, async { tokio::join!(one, all[1].enter()) }).await;
    one.expect("in");
    two.expect("in");
    let mut leaving = Box::pin(all[0].leave());
    still_pending("the other is inside", &mut leaving).await;
    let (one, two) = within("both", SOON, async { tokio::join!(leaving, all[1].leave()) }).await;
    one.expect("out");
    two.expect("out");
    server.until(|| server.children(PATH).is_empty()).await;
}

/// One who is slow removes what a crashed round has left; by then the directory is another one, with a round at the
/// same number.
#[tokio::test(start_paused = true)]
async fn who_removes_a_stale_ready_too_late_leaves_the_round_of_a_new_directory_alone() {
    for millis in (0..1_500).step_by(100) {
        let (server, clients) = setup(3).await;
        let all = members(&clients, 2);
        server.set_data_by_hand(PATH, "").expect("the gate is at 1");
        server.create_by_hand(READY, "", zookeeper_recipes::CreateMode::Persistent).expect("a new node");
        server.delay(&clients[2], std::time::Duration::from_millis(500));
        let mut slow = Box::pin(all[2].enter());
        assert!(tokio::time::timeout(std::time::Duration::from_millis(millis), &mut slow).await.is_err());
        for name in server.children(PATH) {
            server.delete_by_hand(&format!("{PATH}/{name}")).expect("it exists");
        }
        server.delete_by_hand(PATH).expect("it is empty");
        enter_all(&all[..2]).await;
        let mut leaving = Box::pin(all[0].leave());
        let early = async { tokio::time::timeout(std::time::Duration::from_secs(3), &mut leaving).await };
        let mut slow_too = Box::pin(async { tokio::join!(early, tokio::time::timeout(T, &mut slow)) });
        assert!((&mut slow_too).await.0.is_err(), "after {millis} ms: the other is inside");
    }
}

#[tokio::test(start_paused = true)]
async fn a_barrier_deleted_at_any_moment_of_an_enter_is_made_again() {
    for data in ["", "kept"] {
        for micros in (0..8_000).step_by(200) {
            let (server, clients) = setup(2).await;
            server.set_data_by_hand(PATH, data).expect("it exists");
            let all = members(&clients, 2);
            let wipe = async {
                tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
                if is_open(&server) {
                    return;
                }
                for name in server.children(PATH) {
                    server.delete_by_hand(&format!("{PATH}/{name}")).expect("it exists");
                }
                // With one who is just coming it is not empty.
                let _ = server.delete_by_hand(PATH);
            };
            let entered = async { tokio::join!(all[0].enter(), all[1].enter(), wipe) };
            let (one, two, ()) = within("both", T, entered).await;
            one.expect("in");
            two.expect("in");
        }
    }
}
