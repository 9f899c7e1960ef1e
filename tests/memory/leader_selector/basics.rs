//! The basic behaviour of a selector.

use std::time::Duration;

use zookeeper_recipes::leader_selector::{Error, LeaderSelector, Leadership, RequeuePolicy, SelectorStatus, TermEnd};
use zookeeper_recipes::{ErrorKind, testing::TestingServer};

use super::fixture::{Act, PATH, Stage, actor, builder, leads, next, reaches, setup};
use crate::fixture::{SOON, still_pending, within};

#[tokio::test(start_paused = true)]
async fn a_term_lasts_until_the_listener_returns_and_is_not_repeated_by_itself() {
    let (server, client, _) = setup().await;
    let stage = Stage::new();
    let selector = builder(&client, "alice").start(actor("alice", &stage, [Act::For(SOON)])).expect("started");
    let mut outcomes = selector.outcomes();
    leads(&selector).await;
    let token = selector.state().get().fencing_token().expect("it leads");
    let [node] = &server.children(PATH)[..] else { panic!("one node") };
    assert!(node.starts_with("_c_") && node.ends_with("-lock-0000000000"), "{node}");
    assert_eq!(server.get(&format!("{PATH}/{node}")).as_deref(), Some(&b"alice"[..]));
    let outcome = next(&mut outcomes).await;
    assert!(matches!(outcome.end, TermEnd::Returned), "{outcome:?}");
    assert_eq!((outcome.fencing_token, outcome.release_error), (token, None));
    assert!(server.children(PATH).is_empty(), "the node is gone when the outcome comes");
    assert!(!selector.has_leadership());
    reaches(&selector, SelectorStatus::Idle).await;
    tokio::time::sleep(SOON * 30).await;
    assert_eq!(stage.tokens(), [token]);
    assert!(selector.state().get().last_outcome().is_some());
}

#[tokio::test(start_paused = true)]
async fn closures_are_listeners_whether_they_return_a_result_or_nothing() {
    let (_server, client, _) = setup().await;
    let nothing = |_: Leadership| async {};
    let result = |_: Leadership| async { Err::<(), _>(std::io::Error::other("on purpose")) };
    let nothing = builder(&client, "a").start(nothing).expect("started");
    let mut outcomes = nothing.outcomes();
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Returned));
    let result = builder(&client, "b").start(result).expect("started");
    let mut outcomes = result.outcomes();
    let TermEnd::Failed(error) = next(&mut outcomes).await.end else { panic!("it failed") };
    assert_eq!(error.to_string(), "on purpose");
    assert!(error.downcast_ref::<std::io::Error>().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_listener_learns_from_its_leadership_which_election_it_leads_and_as_whom() {
    let (_server, client, _) = setup().await;
    let names = |leadership: Leadership| async move {
        Err::<(), _>(std::io::Error::other(format!("{} as {}", leadership.path(), leadership.id())))
    };
    let selector = builder(&client, "alice").start(names).expect("started");
    let TermEnd::Failed(names) = next(&mut selector.outcomes()).await.end else { panic!("it returned an error") };
    assert_eq!(names.to_string(), format!("{PATH} as alice"));
}

#[tokio::test(start_paused = true)]
async fn ten_selectors_that_requeue_lead_in_turn_each_once_a_round_and_one_at_a_time() {
    const ROUNDS: usize = 3;
    let (server, one, two) = setup().await;
    let stage = Stage::new();
    let mut all = Vec::new();
    for number in 0..10 {
        let id = format!("selector-{number}");
        let client = if number % 2 == 0 { &one } else { &two };
        let selector = builder(client, &id).auto_requeue(RequeuePolicy::default());
        all.push(selector.start(actor(&id, &stage, [Act::For(SOON)])).expect("started"));
        // The first round is in the order of entering.
        server.until(|| server.children(PATH).len() == number + 1).await;
    }
    server.until(|| stage.terms().len() >= 10 * ROUNDS).await;
    let ids = stage.ids();
    for round in ids[..10 * ROUNDS].chunks(10) {
        let mut once = round.to_vec();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), 10, "each once: {round:?}");
    }
    assert_eq!(stage.most(), 1, "never two at once");
    assert!(stage.tokens().is_sorted_by(|one, next| one < next));
    for selector in &all {
        assert_eq!(selector.participants().await.expect("an answer").len(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn all_see_the_same_leader_and_participants() {
    let (_server, one, two) = setup().await;
    let stage = Stage::new();
    let alice = builder(&one, "alice").start(actor("alice", &stage, [Act::ForEver])).expect("started");
    leads(&alice).await;
    let bob = builder(&two, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
    reaches(&bob, SelectorStatus::Waiting).await;
    for selector in [&alice, &bob] {
        let leader = selector.leader().await.expect("an answer").expect("there is a leader");
        assert_eq!((leader.id.as_str(), leader.is_leader), ("alice", true));
        let all = selector.participants().await.expect("an answer");
        let all: Vec<_> = all.iter().map(|who| (who.id.as_str(), who.is_leader)).collect();
        assert_eq!(all, [("alice", true), ("bob", false)]);
    }
    assert!(alice.has_leadership() && !bob.has_leadership());
    assert_eq!((alice.id(), alice.path()), ("alice", PATH));
}

#[tokio::test(start_paused = true)]
async fn a_selector_and_a_mutex_on_one_path_share_one_queue() {
    let (_server, one, two) = setup().await;
    let stage = Stage::new();
    let selector = builder(&one, "alice").start(actor("alice", &stage, [Act::For(SOON * 5)])).expect("started");
    leads(&selector).await;
    let mutex = zookeeper_recipes::mutex::InterProcessMutex::new(&two, PATH).expect("a good path");
    let mut waiting = Box::pin(mutex.acquire());
    still_pending("the selector leads", &mut waiting).await;
    let guard = within("the term is over", SOON * 10, waiting).await.expect("held");
    assert!(guard.fencing_token() > stage.tokens()[0]);
}

#[tokio::test(start_paused = true)]
async fn input_that_makes_no_sense_is_refused_at_the_start() {
    let (_server, client, _) = setup().await;
    let lead = |_: Leadership| async {};
    let error = LeaderSelector::builder(&client, "nonsense").start(lead).expect_err("a bad path");
    assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error}");
    let error = builder(&client, &"x".repeat(65_537)).start(lead).expect_err("too long");
    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    client.close().await.expect("closed");
    assert!(matches!(builder(&client, "late").start(lead), Err(Error::Closed { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_missing_directory_is_made() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let selector = LeaderSelector::builder(&client, "/not/there/yet").start(|_: Leadership| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    leads(&selector.expect("started")).await;
}
