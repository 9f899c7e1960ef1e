//! Participants that are asked to resign, or resign by themselves.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Semaphore;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::leader_latch::{
    CloseMode, LatchStatus, LeaderLatch, LeaderLatchListener, Leadership, LeadershipLost, ResignError, ask_to_resign,
    pending_requests,
};
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{
    Edges, Heard, PATH, can_be_asked, hears, latch, leads, line_becomes, make_directory, node_of, reaches, recorder,
    request_of, revocable, revocable_line, setup, waits,
};
use crate::fixture::{SOON, still_pending, within};

const GRACE: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_asked_leads_for_its_grace_period_and_goes_to_the_end_of_the_line() {
    let (server, [one, two, three]) = setup().await;
    let leader = revocable(&one, "leader", GRACE);
    let node = can_be_asked(&server, &leader).await;
    let next = latch(&two, "next");
    waits(&next).await;
    let (listener, mut heard) = recorder();
    leader.add_listener(listener);
    let leadership = leads(&leader).await;
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(leadership.fencing_token()));
    let mut told = Box::pin(leadership.on_revoke());
    still_pending("no client has asked", &mut told).await;
    let mut states = leader.state();

    ask_to_resign(&three, &node).await.expect("asked");
    assert_eq!(within("it is told", SOON, told).await, Ok(()));
    assert_eq!(within("also if it asks late", SOON, leadership.on_revoke()).await, Ok(()));
    tokio::time::sleep(GRACE - SOON).await;
    assert!(leadership.is_held() && !next.has_leadership(), "its grace period lasts");
    let resigned = states.wait_for(|state| state.status() == LatchStatus::Resigned);
    drop(within("it resigns", GRACE, resigned).await.expect("it is open"));
    assert!(!leadership.is_held());
    assert_eq!(hears(&mut heard).await, Heard::NotLeader);
    assert!(leads(&next).await.fencing_token() > leadership.fencing_token());
    line_becomes(&next, &["next", "leader"]).await;
    assert_ne!(can_be_asked(&server, &leader).await, node);
    server.until(|| server.stat(&request_of(&node)).is_none()).await;
    assert_eq!(leadership.on_revoke().await, Err(LeadershipLost));

    next.close().await.expect("closed");
    let again = leads(&leader).await;
    let mut told = Box::pin(again.on_revoke());
    still_pending("the request was for the earlier node", &mut told).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_resigns_early_and_one_with_an_endless_grace_period_only_by_itself() {
    let (server, [one, two]) = setup().await;
    let leader = revocable(&one, "leader", Duration::MAX);
    let node = can_be_asked(&server, &leader).await;
    let next = latch(&two, "next");
    waits(&next).await;
    let leadership = leads(&leader).await;
    next.ask_to_resign(&leader.leader().await.expect("read").expect("it leads")).await.expect("asked");
    within("it is told", SOON, leadership.on_revoke()).await.expect("it leads");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(leadership.is_held(), "only its code decides");
    within("its term ends", SOON, leader.resign(&leadership)).await;
    assert!(!leadership.is_held() && !leader.has_leadership());
    leads(&next).await;
    assert_ne!(waits(&leader).await, node);
}

#[tokio::test(start_paused = true)]
async fn any_leader_can_resign_but_not_from_a_term_that_is_over() {
    let (_server, [one, two]) = setup().await;
    let (first, second) = (latch(&one, "first"), latch(&two, "second"));
    let (leader, next) = tokio::select! {
        _ = leads(&first) => (&first, &second),
        _ = leads(&second) => (&second, &first),
    };
    let old = leads(leader).await;
    waits(next).await;
    leader.resign(&old).await;
    let leadership = leads(next).await;
    waits(leader).await;
    within("it is a term of another", SOON, leader.resign(&leadership)).await;
    assert!(leadership.is_held());
    next.resign(&leadership).await;
    let again = leads(leader).await;
    within("it is over", SOON, leader.resign(&old)).await;
    tokio::time::sleep(SOON).await;
    assert!(again.is_held(), "the term that is over was another one");
    // Both before the task of the latch runs.
    assert!(leader.resign(&again).now_or_never().is_none());
    leader.resign(&old).now_or_never().expect("nothing is to be waited for");
    leads(next).await;
    assert!(!again.is_held(), "the present resignation was not lost");
}

#[tokio::test(start_paused = true)]
async fn a_term_that_was_resigned_is_never_returned_again() {
    let (_server, [one]) = setup().await;
    let alone = latch(&one, "alone");
    let mut leadership = leads(&alone).await;
    for _ in 0..5 {
        alone.resign(&leadership).await;
        assert!(!leadership.is_held() && !alone.has_leadership());
        let again = leads(&alone).await;
        assert!(again.fencing_token() > leadership.fencing_token());
        leadership = again;
    }
    alone.close().await.expect("closed");
    within("there is nothing to resign", SOON, alone.resign(&leadership)).await;
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_a_lock_asks_no_leader_to_resign() {
    let (server, [one, two]) = setup().await;
    let leader = revocable(&one, "leader", Duration::ZERO);
    let node = can_be_asked(&server, &leader).await;
    let leadership = leads(&leader).await;
    let plain = latch(&two, "plain");
    waits(&plain).await;
    let mut told = Box::pin(leadership.on_revoke());
    server.set_data_by_hand(&node, "__REVOKE__").expect("it exists");
    still_pending("it is no lock", &mut told).await;
    leader.close().await.expect("closed");
    let leadership = leads(&plain).await;
    let mut told = Box::pin(leadership.on_revoke());
    server.set_data_by_hand(&node_of(&plain), "__REVOKE__").expect("it exists");
    still_pending("it is no lock, and cannot be asked", &mut told).await;
    assert!(leadership.is_held());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_alone_leads_again_with_another_node() {
    let (server, [one]) = setup().await;
    let leader = revocable(&one, "alone", Duration::ZERO);
    let node = can_be_asked(&server, &leader).await;
    let token = leads(&leader).await.fencing_token();
    ask_to_resign(&one, &node).await.expect("asked");
    server.until(|| server.stat(&node).is_none()).await;
    assert!(leads(&leader).await.fencing_token() > token);
    tokio::time::sleep(SOON).await;
    assert!(leader.has_leadership() && server.children(PATH).len() == 1, "once");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_asked_goes_to_the_end_at_once() {
    let (server, [one, two, three]) = setup().await;
    let first = latch(&one, "first");
    leads(&first).await;
    let waiter = revocable(&two, "waiter", GRACE);
    let node = can_be_asked(&server, &waiter).await;
    let last = latch(&three, "last");
    waits(&last).await;
    ask_to_resign(&one, &node).await.expect("asked");
    within("it is at the end", SOON, line_becomes(&first, &["first", "last", "waiter"])).await;
    let edges = Edges::of(&waiter);
    first.close().await.expect("closed");
    leads(&last).await;
    assert_eq!(edges.seen(), []);
}

/// A listener that returns when it may.
struct Slow(Arc<Semaphore>);

impl LeaderLatchListener for Slow {
    async fn is_leader(&self, _: Leadership) {}

    async fn not_leader(&self) {
        self.0.acquire().await.expect("open").forget();
    }
}

#[tokio::test(start_paused = true)]
async fn listeners_end_before_the_next_one_leads_if_the_mode_says_so() {
    for (mode, waits_for_it) in [(CloseMode::NotifyLeader, true), (CloseMode::Silent, false)] {
        let (server, [one, two]) = setup().await;
        let leader = LeaderLatch::builder(&one, PATH).close_mode(mode).revocable(Duration::ZERO).start();
        let leader = leader.expect("the latch starts");
        let node = can_be_asked(&server, &leader).await;
        let may_return = Arc::new(Semaphore::new(0));
        leader.add_listener(Slow(Arc::clone(&may_return)));
        let leadership = leads(&leader).await;
        let next = latch(&two, "next");
        waits(&next).await;
        tokio::time::sleep(SOON).await;
        ask_to_resign(&two, &node).await.expect("asked");
        within("its term ends", SOON, leadership.lost()).await;
        tokio::time::sleep(SOON).await;
        assert_eq!(next.has_leadership(), !waits_for_it, "{mode:?}");
        if waits_for_it {
            // A silent close ends the wait too.
            leader.close_with(CloseMode::Silent).await.expect("closed");
        }
        leads(&next).await;
        may_return.add_permits(1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_asked_is_named_and_nothing_is_written() {
    let (server, [one, two]) = setup().await;
    let ours = latch(&one, "ours");
    leads(&ours).await;
    let javas = server.create_by_hand(&format!("{PATH}/_c_x-latch-"), "java", CreateMode::PersistentSequential);
    let javas = javas.expect("created");
    let before = server.paths();
    for node in [node_of(&ours), javas] {
        let refused = ask_to_resign(&two, &node).await.expect_err("it cannot be asked");
        assert!(matches!(&refused, ResignError::NotRevocable { participants, .. } if *participants == [node.clone()]));
        assert!(refused.to_string().contains(&node), "{refused}");
    }
    for bad in ["/elections/one/lock-0000000001", "/elections/one", "elections"] {
        assert!(ask_to_resign(&two, bad).await.expect_err(bad).to_string().contains(bad));
    }
    let asked = ask_to_resign(&two, &format!("{PATH}/_c_x-latch-0000000077")).await.expect("it is gone");
    assert!(!asked, "and the caller is told");
    assert_eq!((server.paths(), server.get(&before[1])), (before.clone(), Some(Vec::new())));
    assert!(ours.has_leadership());
}

#[tokio::test(start_paused = true)]
async fn the_option_costs_two_requests_to_enter_and_one_to_leave_and_leaves_nothing() {
    let server = TestingServer::start();
    make_directory(&server);
    server.create_by_hand(&format!("{PATH}-requests"), "", CreateMode::Container).expect("a new node");
    let client = server.client().await.expect("a client");
    let mut costs = Vec::new();
    for with_option in [false, true] {
        let before = client.request_counts();
        let latch = if with_option { revocable(&client, "it", GRACE) } else { latch(&client, "it") };
        leads(&latch).await;
        tokio::time::sleep(SOON).await;
        let entered = client.request_counts();
        latch.close().await.expect("closed");
        tokio::time::sleep(SOON).await;
        let left = client.request_counts() - entered;
        costs.push(((entered - before).total(), left.total()));
        assert!(server.children(PATH).is_empty() && server.children(&format!("{PATH}-requests")).is_empty());
        assert_eq!(server.watches(), 0);
    }
    assert_eq!(costs, [(3, 1), (5, 2)]);
}

#[tokio::test(start_paused = true)]
async fn javas_members_and_ours_read_the_same_id_while_a_request_is_pending() {
    let (server, [one, two]) = setup().await;
    let leader = revocable(&one, "leader", Duration::MAX);
    let node = can_be_asked(&server, &leader).await;
    assert_eq!(pending_requests(&two, PATH).await.expect("read"), [""; 0]);
    assert_eq!(pending_requests(&two, "/elsewhere").await.expect("there is no election"), [""; 0]);
    ask_to_resign(&two, &node).await.expect("asked");
    assert_eq!(pending_requests(&two, PATH).await.expect("read"), [node.as_str()]);
    assert!(pending_requests(&two, "no path").await.is_err());
    assert_eq!(server.get(&node).as_deref(), Some(&b"leader"[..]));
    assert_eq!(server.get(&request_of(&node)).as_deref(), Some(&b"resign"[..]));
    reaches(&leader, LatchStatus::Leading).await;
}

#[tokio::test(start_paused = true)]
async fn all_of_a_line_that_are_asked_at_once_keep_one_leader() {
    let (server, clients) = setup::<4>().await;
    let line = revocable_line(&server, &clients, &["a", "b", "c", "d"]).await;
    for latch in &line {
        ask_to_resign(&clients[0], &node_of(latch)).await.expect("asked");
    }
    tokio::time::sleep(SOON).await;
    assert_eq!(line.iter().filter(|latch| latch.has_leadership()).count(), 1);
    assert_eq!(server.children(PATH).len(), 4);
}
