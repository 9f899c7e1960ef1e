//! Participants with priorities: who leads next, who is asked to resign, and what that costs.

use std::time::Duration;

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::leader_latch::ask_to_resign;
use zookeeper_recipes::testing::{Operation, TestingServer};

use super::fixture::{
    self, Edges, PATH, can_be_asked, latch, leads, line_becomes, make_directory, node_of, setup, waits,
};
use super::ranked::{builder, leader, line_becomes_next, ranked, revocable, revocable_line};
use crate::fixture::{SOON, T, still_pending, within};

const GRACE: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn the_one_with_the_lowest_number_leads_next_and_those_with_the_same_in_their_order() {
    let (server, clients) = setup::<7>().await;
    let leader = leader(&clients[0]).await;
    let mut line = Vec::new();
    for (client, (id, priority)) in clients[1..].iter().zip([("c", 9), ("d", 9), ("b", 5), ("a", 0), ("A", 0)]) {
        line.push(ranked(client, id, priority).await);
    }
    within("the best is next", SOON, line_becomes_next(&server, "a")).await;
    leader.close().await.expect("closed");
    leads(&line[3]).await;
    for (closed, next) in [(3, 4), (4, 2)] {
        tokio::time::sleep(SOON).await;
        line[closed].close().await.expect("closed");
        leads(&line[next]).await;
    }
    tokio::time::sleep(SOON).await;
    let ids: Vec<String> = line[2].participants().await.expect("read").into_iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), 3, "none is lost: {ids:?}");
}

#[tokio::test(start_paused = true)]
async fn a_revocable_leader_makes_room_for_a_better_one_and_leads_again_when_that_is_gone() {
    let (server, [one, two]) = setup().await;
    let worse = revocable(&server, &one, ("worse", 5), GRACE).await;
    let leadership = leads(&worse).await;
    let mut told = Box::pin(leadership.on_revoke());
    still_pending("it is alone", &mut told).await;
    let better = ranked(&two, "better", 1).await;
    within("it is told", SOON, told).await.expect("it leads");
    tokio::time::sleep(GRACE - SOON * 2).await;
    assert!(leadership.is_held() && !better.has_leadership(), "its grace period lasts");
    within("its grace period is over", SOON * 4, better.wait_for_leadership()).await.expect("it leads");
    line_becomes(&better, &["better", "worse"]).await;
    let all = better.participants().await.expect("read");
    assert_eq!([all[0].priority, all[1].priority], [Some(1), Some(5)]);
    assert!(!all[1].gives_way, "it was asked because of the priority");
    better.close().await.expect("closed");
    leads(&worse).await;
    // And again: it has not become worse by that.
    let better = ranked(&two, "better", 1).await;
    within("it leads", GRACE + SOON, better.wait_for_leadership()).await.expect("it leads");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_resigns_when_it_is_asked_keeps_its_claim() {
    let (server, [one, two, three]) = setup().await;
    let middle = revocable(&server, &one, ("middle", 5), Duration::MAX).await;
    let leadership = leads(&middle).await;
    let best = ranked(&two, "best", 1).await;
    within("it is told", SOON, leadership.on_revoke()).await.expect("it leads");
    middle.resign(&leadership).await;
    leads(&best).await;
    let _worst = ranked(&three, "worst", 9).await;
    line_becomes(&best, &["best", "middle", "worst"]).await;
    assert!(!best.participants().await.expect("read")[1].gives_way);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_be_asked_leads_on_and_so_do_those_of_equal_or_no_priority() {
    let (server, clients) = setup::<3>().await;
    let first = builder(&clients[0], "first", 5).start().expect("the latch starts");
    leads(&first).await;
    let better = ranked(&clients[1], "better", 1).await;
    tokio::time::sleep(SOON).await;
    let before = clients[1].request_counts();
    tokio::time::sleep(T * 10).await;
    let sent = clients[1].request_counts() - before;
    assert_eq!(sent.total(), 0, "it waits for a change: {sent:?}");
    assert!(first.has_leadership());
    first.close().await.expect("closed");
    leads(&better).await;
    better.close().await.expect("closed");
    for (id, priority) in [("equal", Some(5)), ("plain", None)] {
        let leader = revocable(&server, &clients[0], ("first", 5), Duration::ZERO).await;
        let leadership = leads(&leader).await;
        let other = match priority {
            Some(priority) => ranked(&clients[1], id, priority).await,
            None => latch(&clients[1], id),
        };
        waits(&other).await;
        tokio::time::sleep(SOON).await;
        assert!(leadership.is_held(), "{id}");
        leader.close().await.expect("closed");
        leads(&other).await;
        other.close().await.expect("closed");
    }
}

#[tokio::test(start_paused = true)]
async fn those_without_a_priority_and_those_of_curator_keep_their_places() {
    let (server, clients) = setup::<4>().await;
    let leader = leader(&clients[0]).await;
    let javas = server.create_by_hand(&format!("{PATH}/_c_x-latch-"), "java", CreateMode::PersistentSequential);
    let javas = javas.expect("created");
    let plain = latch(&clients[1], "plain");
    waits(&plain).await;
    let worse = ranked(&clients[2], "worse", 5).await;
    let better = ranked(&clients[3], "better", 1).await;
    tokio::time::sleep(SOON).await;
    line_becomes(&better, &["leader", "java", "plain", "worse", "better"]).await;
    leader.close().await.expect("closed");
    tokio::time::sleep(SOON).await;
    assert!([&plain, &worse, &better].iter().all(|latch| !latch.has_leadership()), "Java's member leads");
    server.delete_by_hand(&javas).expect("it exists");
    leads(&plain).await;
    line_becomes(&plain, &["plain", "better", "worse"]).await;
    plain.close().await.expect("closed");
    leads(&better).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_leads_before_it_has_compared_is_asked_to_resign() {
    let (server, clients) = setup::<3>().await;
    let leader = leader(&clients[0]).await;
    let worse = revocable(&server, &clients[1], ("worse", 5), SOON).await;
    let edges = Edges::of(&worse);
    // The leader is gone before the two can compare.
    let better = builder(&clients[2], "better", 1).start().expect("the latch starts");
    server.freeze_client(&clients[1]);
    waits(&better).await;
    server.delete_by_hand(&node_of(&leader)).expect("it exists");
    server.thaw_client(&clients[1]);
    within("it leads in the end", SOON * 4, better.wait_for_leadership()).await.expect("it leads");
    assert_eq!(edges.seen().len(), 2, "the other has led before");
    assert_eq!(clients[2].request_counts().multis, 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_resigns_gives_way_until_it_has_led_again() {
    let (server, clients) = setup::<3>().await;
    let best = revocable(&server, &clients[0], ("best", 1), Duration::ZERO).await;
    let worse = revocable(&server, &clients[1], ("worse", 5), Duration::ZERO).await;
    leads(&best).await;
    // By its own code, and by an operator.
    for operator in [false, true] {
        let leadership = leads(&best).await;
        if operator {
            ask_to_resign(&clients[2], &can_be_asked(&server, &best).await).await.expect("asked");
        } else {
            best.resign(&leadership).await;
        }
        let leadership = leads(&worse).await;
        line_becomes(&worse, &["worse", "best"]).await;
        tokio::time::sleep(SOON).await;
        assert!(leadership.is_held(), "it is not asked to resign at once");
        let all = worse.participants().await.expect("read");
        assert!(all[1].gives_way && all[1].priority == Some(1), "{all:?}");
        assert!(all[1].to_string().contains("priority 1, gives way"), "{}", all[1]);
        // A third is no reason to step back.
        let third = ranked(&clients[2], "third", 3).await;
        tokio::time::sleep(SOON).await;
        line_becomes(&worse, &["worse", "best", "third"]).await;
        assert!(leadership.is_held());
        third.close().await.expect("closed");
        line_becomes(&worse, &["worse", "best"]).await;
        worse.resign(&leadership).await;
        leads(&best).await;
        line_becomes(&best, &["best", "worse"]).await;
        can_be_asked(&server, &worse).await;
    }
    // It has led again: its session ends, and it has its claim.
    server.expire_session(&clients[0]);
    within("it leads in the end", T, best.wait_for_leadership()).await.expect("it leads");
    line_becomes(&best, &["best", "worse"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_priority_costs_two_or_three_requests_to_wait_and_the_next_in_line_one_list_for_each_change() {
    let server = TestingServer::start();
    make_directory(&server);
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(server.client().await.expect("a client"));
    }
    let first = builder(&clients[0], "first", 1).start().expect("the latch starts");
    leads(&first).await;
    let next = ranked(&clients[1], "next", 1).await;
    tokio::time::sleep(SOON).await;
    let [leader, waiter] = [0, 1].map(|at| clients[at].request_counts());
    assert_eq!(leader.total(), 3, "{leader:?}");
    // Four as without a priority, and two lists, the second with a watch.
    assert_eq!((waiter.total(), waiter.lists, waiter.watches), (6, 2, 3), "{waiter:?}");
    let third = ranked(&clients[2], "third", 1).await;
    tokio::time::sleep(SOON).await;
    let behind = clients[2].request_counts();
    // Three as without, a list, and watches of the last two before it.
    assert_eq!((behind.total(), behind.lists, behind.watches), (6, 2, 3), "{behind:?}");
    let listed = clients[1].request_counts() - waiter;
    assert_eq!((listed.total(), listed.watches), (1, 1), "{listed:?}");
    assert_eq!(clients[0].request_counts().total(), 3);

    // A revocable leader that is worse: one look at its node of requests, one transaction, and another look.
    first.close().await.expect("closed");
    leads(&next).await;
    third.close().await.expect("closed");
    next.close().await.expect("closed");
    let line = revocable(&server, &clients[3], ("worse", 5), Duration::MAX).await;
    leads(&line).await;
    let before = clients[4].request_counts();
    let _better = ranked(&clients[4], "better", 1).await;
    tokio::time::sleep(SOON).await;
    let sent = clients[4].request_counts() - before;
    assert_eq!((sent.total(), sent.multis, sent.watches), (10, 1, 6), "{sent:?}");
    let before = clients[4].request_counts();
    tokio::time::sleep(T * 10).await;
    let sent = clients[4].request_counts() - before;
    assert_eq!(sent.total(), 0, "it asks once: {sent:?}");
}

#[tokio::test(start_paused = true)]
async fn of_a_hundred_waiters_only_those_before_the_best_move() {
    let (server, clients) = setup::<2>().await;
    let leader = leader(&clients[0]).await;
    let mut line = Vec::new();
    for number in 0..100 {
        line.push(ranked(&clients[0], &number.to_string(), if number == 50 { 1 } else { 2 }).await);
    }
    within("the best is next", SOON * 10, line_becomes_next(&server, "50")).await;
    tokio::time::sleep(SOON).await;
    let deletes = server.count(&clients[0], Operation::Delete);
    // Fifty that were before it; and when it has left, those that are equal stay where they are.
    assert_eq!(deletes, 50);
    leader.close().await.expect("closed");
    leads(&line[50]).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(server.count(&clients[0], Operation::Delete), 51);
    assert_eq!(server.children(PATH).len(), 100);
}

#[tokio::test(start_paused = true)]
async fn under_continuous_churn_of_better_ones_the_leader_leads_on_and_the_others_step_back_once_for_each() {
    let (server, clients) = setup::<3>().await;
    let leader = leader(&clients[0]).await;
    let leadership = leads(&leader).await;
    let worse = ranked(&clients[1], "worse", 5).await;
    let edges = Edges::of(&worse);
    const ROUNDS: u64 = 20;
    for round in 0..ROUNDS {
        let better = ranked(&clients[2], &round.to_string(), 1).await;
        within("the best is next", SOON, line_becomes_next(&server, &round.to_string())).await;
        better.close().await.expect("closed");
        within("the other is next", SOON, line_becomes_next(&server, "worse")).await;
    }
    assert_eq!(server.count(&clients[1], Operation::Delete), ROUNDS);
    assert!(leadership.is_held() && edges.seen().is_empty());
    leader.close().await.expect("closed");
    leads(&worse).await;
}

#[tokio::test(start_paused = true)]
async fn one_becomes_the_next_in_whatever_order_the_others_leave() {
    for order in 0..24 {
        let (server, clients) = setup::<5>().await;
        let mut line = revocable_line(&server, &clients, &[("0", 5), ("1", 5), ("2", 5), ("3", 5)]).await;
        let last = ranked(&clients[4], "last", 5).await;
        // Each order in which three of four leave.
        for among in [order / 6, order / 2 % 3, order % 2] {
            tokio::time::sleep(SOON).await;
            line.remove(among).close().await.expect("closed");
        }
        // It is behind one that leads and is equal. If it knows that it is the next, it lets a better one pass.
        let better = ranked(&clients[0], "better", 1).await;
        within("it leads", SOON * 2, better.wait_for_leadership()).await.expect("it leads");
        line_becomes(&better, &["better", "last", line[0].id()]).await;
        drop(last);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_gives_way_keeps_its_place_among_those_with_higher_numbers() {
    let (server, clients) = setup::<3>().await;
    let best = revocable(&server, &clients[0], ("best", 1), Duration::ZERO).await;
    let worst = revocable(&server, &clients[1], ("worst", 9), Duration::ZERO).await;
    best.resign(&leads(&best).await).await;
    leads(&worst).await;
    line_becomes(&worst, &["worst", "best"]).await;
    // It has a lower number than the leader, but not than the one before it.
    let new = revocable(&server, &clients[2], ("new", 5), Duration::ZERO).await;
    tokio::time::sleep(SOON).await;
    line_becomes(&worst, &["worst", "best", "new"]).await;
    worst.close().await.expect("closed");
    leads(&best).await;
    tokio::time::sleep(SOON).await;
    assert!(best.has_leadership());
    // One that is lower than both makes both step back.
    let worst = revocable(&server, &clients[1], ("worst", 9), Duration::ZERO).await;
    best.resign(&leads(&best).await).await;
    leads(&new).await;
    line_becomes(&new, &["new", "worst", "best"]).await;
    let lowest = revocable(&server, &clients[2], ("lowest", 0), Duration::ZERO).await;
    within("it leads", SOON, lowest.wait_for_leadership()).await.expect("it leads");
    drop(worst);
}

#[tokio::test(start_paused = true)]
async fn plain_revocable_latches_are_never_asked_because_of_a_priority() {
    let (server, clients) = setup::<3>().await;
    let line = fixture::revocable_line(&server, &clients, &["a", "b"]).await;
    let better = ranked(&clients[2], "better", 0).await;
    tokio::time::sleep(SOON).await;
    line_becomes(&better, &["a", "b", "better"]).await;
    line[0].close().await.expect("closed");
    leads(&line[1]).await;
    tokio::time::sleep(SOON).await;
    assert!(line[1].has_leadership() && !better.has_leadership());
    assert_ne!(node_of(&better), node_of(&line[1]));
}
