//! LeaderSelector: reading participants, closing, and following the outcomes of terms.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use tokio::time::sleep;
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_selector::{
    LeaderSelector, Leadership, Outcomes, Participant, RequeuePolicy, RunningTerm, SelectorStatus, TermEnd,
};

use crate::harness::{Outage, Run, cases};

cases! {
    leader: "LeaderSelector::leader", at least 140 drops, 100 faults;
    participants: "LeaderSelector::participants", at least 260 drops, 200 faults;
    close: "LeaderSelector::close", at least 110 drops, 60 faults;
    close_of_a_waiter: "LeaderSelector::close", at least 90 drops, 50 faults;
    close_with_its_selector: "LeaderSelector::close", at least 220 drops, 120 faults;
    close_and_interrupt: "LeaderSelector::close_with", at least 120 drops, 70 faults;
    close_while_cut_off: "LeaderSelector::close_with", at least 230 drops, 50 faults;
    outcomes: "Outcomes::next", at least 190 drops, 100 faults;
    last_outcome: "Outcomes::next", at least 120 drops, 70 faults;
}

const LINE: &str = "/terms";
/// The length of a term that ends by itself.
const TERM: Duration = Duration::from_millis(60);

/// Leads until leadership is lost, in every term.
fn for_ever(client: &Client, id: &str) -> LeaderSelector {
    let selector = LeaderSelector::builder(client, LINE).id(id).auto_requeue(RequeuePolicy::default());
    selector.start(|leadership: Leadership| async move { leadership.lost().await }).expect("it starts")
}

/// Leads once, for this time.
fn once(client: &Client, term: Duration) -> LeaderSelector {
    let selector = LeaderSelector::builder(client, LINE).id("it");
    selector.start(move |_: Leadership| sleep(term)).expect("it starts")
}

async fn reaches(selector: &LeaderSelector, status: SelectorStatus) {
    let mut states = selector.state();
    drop(states.wait_for(|state| state.status() == status).await.expect("it is alive"));
}

async fn leader_of(client: &Client, id: &str) -> LeaderSelector {
    let selector = for_ever(client, id);
    reaches(&selector, SelectorStatus::Leading).await;
    selector
}

async fn waiter_of(client: &Client, id: &str) -> LeaderSelector {
    let selector = for_ever(client, id);
    reaches(&selector, SelectorStatus::Waiting).await;
    selector
}

/// Waits until exactly this many nodes remain.
async fn line_has(run: &Run, nodes: usize) {
    run.in_the_end("no other participant is left", || run.server().children(LINE).len() == nodes).await;
}

/// Checks that the selector is closed, with all that it had, and stays closed.
async fn is_closed(run: &Run, selector: &LeaderSelector, others: usize) {
    reaches(selector, SelectorStatus::Closed).await;
    line_has(run, others).await;
    assert!(!selector.has_leadership() && !selector.requeue());
    selector.close().await.expect("closing twice is fine");
    assert!(selector.outcomes().next().await.is_none());
}

async fn leader(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let selector = leader_of(&client, "it").await;
    if let Some(leader) = run.cut(selector.leader()).await.done() {
        // There is no leader if its session has expired.
        let leader = leader.expect("a read is repeated").map(|leader| leader.id);
        assert!(leader.is_none_or(|leader| leader == "it"));
    }
    reaches(&selector, SelectorStatus::Leading).await;
    assert_eq!(selector.leader().await.expect("another look").map(|leader| leader.id).as_deref(), Some("it"));
}

async fn participants(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let other = run.other_client().await;
    let _first = leader_of(&other, "first").await;
    let _second = waiter_of(&other, "second").await;
    let selector = waiter_of(&client, "it").await;
    drop(run.cut(selector.participants()).await.done().map(|all| all.expect("a read is repeated")));
    line_has(run, 3).await;
    let all = selector.participants().await.expect("another look");
    let ids: Vec<String> = all.into_iter().map(|Participant { id, .. }| id).collect();
    assert_eq!(ids, ["first", "second", "it"]);
}

/// Once polled, the close is carried out in the background, and the term runs to its end; if never polled, it is not.
async fn close(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let selector = once(&client, TERM);
    let mut outcomes = selector.outcomes();
    reaches(&selector, SelectorStatus::Leading).await;
    if let Some(closed) = run.cut(selector.close()).await.done() {
        closed.expect("the node is deleted");
        assert_eq!(run.server().children(LINE), [""; 0]);
    }
    let end = outcomes.next().await.expect("there was a term").end;
    assert!(matches!(end, TermEnd::Returned) || matches!(end, TermEnd::Lost) && !run.is_calm(), "{end}");
    if !run.is_polled() {
        reaches(&selector, SelectorStatus::Idle).await;
        assert!(selector.requeue());
        reaches(&selector, SelectorStatus::Leading).await;
        selector.close().await.expect("closed");
    }
    is_closed(run, &selector, 0).await;
}

async fn close_of_a_waiter(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let other = run.other_client().await;
    let leader = leader_of(&other, "leader").await;
    let watches = run.settled_watches().await;
    let waiter = waiter_of(&client, "waiter").await;
    if let Some(closed) = run.cut(waiter.close()).await.done() {
        closed.expect("the node is deleted");
    }
    if run.is_polled() {
        is_closed(run, &waiter, 1).await;
        run.only_watches_of_others_are_left(watches).await;
    } else {
        line_has(run, 2).await;
    }
    assert!(leader.has_leadership());
}

/// The selector is dropped with the future that closes it, which also ends a term that would continue.
async fn close_with_its_selector(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let other = run.other_client().await;
    let selector = once(&client, Duration::from_secs(1));
    reaches(&selector, SelectorStatus::Leading).await;
    let next = waiter_of(&other, "next").await;
    if let Some(closed) = run.cut(async move { selector.close().await }).await.done() {
        closed.expect("the node is deleted");
    }
    reaches(&next, SelectorStatus::Leading).await;
    line_has(run, 1).await;
}

/// Counts the terms that have ended.
fn counting(client: &Client, ended: &Arc<AtomicUsize>) -> LeaderSelector {
    let ended = Arc::clone(ended);
    let lead = move |leadership: Leadership| {
        let ended = Arc::clone(&ended);
        async move {
            leadership.lost().await;
            sleep(TERM).await;
            ended.fetch_add(1, Ordering::SeqCst);
        }
    };
    let selector = LeaderSelector::builder(client, LINE).id("it").grace_period(TERM * 2);
    selector.start(lead).expect("it starts")
}

/// The term is interrupted, and ends within its grace period.
async fn close_and_interrupt(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let ended = Arc::new(AtomicUsize::new(0));
    let selector = counting(&client, &ended);
    reaches(&selector, SelectorStatus::Leading).await;
    let mut outcomes = selector.outcomes();
    if let Some(closed) = run.cut(selector.close_with(RunningTerm::Interrupt)).await.done() {
        closed.expect("the node is deleted");
        assert_eq!((ended.load(Ordering::SeqCst), &*run.server().children(LINE)), (1, &[][..] as &[String]));
    }
    if !run.is_polled() {
        assert!(selector.has_leadership() || !run.is_calm());
        selector.close_with(RunningTerm::Interrupt).await.expect("closed");
    }
    let end = outcomes.next().await.expect("there was a term").end;
    assert!(matches!(end, TermEnd::Interrupted) || matches!(end, TermEnd::Lost) && !run.is_calm(), "{end}");
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    is_closed(run, &selector, 0).await;
}

/// The session is given up before the node is deleted: the next session still deletes it.
async fn close_while_cut_off(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let selector = once(&client, Duration::from_secs(60));
    reaches(&selector, SelectorStatus::Leading).await;
    run.begin_outage(Outage::Refused).await;
    if let Some(closed) = run.cut(selector.close_with(RunningTerm::Interrupt)).await.done() {
        closed.expect("the session is over for us");
    }
    run.is_rid_of_all_it_had_in(LINE).await;
    if !run.is_polled() {
        reaches(&selector, SelectorStatus::Idle).await;
        selector.close().await.expect("closed");
    }
    is_closed(run, &selector, 0).await;
}

async fn tokens(outcomes: &mut Outcomes) -> Vec<i64> {
    outcomes.map(|outcome| outcome.fencing_token).collect().await
}

/// The next call returns an outcome that was not received yet, and none is returned twice.
async fn outcomes(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let selector = LeaderSelector::builder(&client, LINE).auto_requeue(RequeuePolicy::default());
    let selector = selector.start(|_: Leadership| sleep(TERM)).expect("it starts");
    let (mut outcomes, mut witness) = (selector.outcomes(), selector.outcomes());
    let mut seen: Vec<i64> = Vec::new();
    seen.extend(run.cut(outcomes.next()).await.done().flatten().map(|outcome| outcome.fencing_token));
    while seen.len() < 3 {
        seen.push(outcomes.next().await.expect("the stream continues").fencing_token);
    }
    selector.close().await.expect("closed");
    seen.extend(tokens(&mut outcomes).await);
    assert_eq!(seen, tokens(&mut witness).await);
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
}

/// The stream outlives its selector, and ends with the last term.
async fn last_outcome(run: &mut Run) {
    run.directory(LINE);
    let client = run.client().await;
    let selector = leader_of(&client, "it").await;
    let (mut outcomes, mut witness) = (selector.outcomes(), selector.outcomes());
    run.later(&client, TERM, move |_| drop(selector));
    let mut seen: Vec<i64> = Vec::new();
    seen.extend(run.cut(outcomes.next()).await.done().flatten().map(|outcome| outcome.fencing_token));
    seen.extend(tokens(&mut outcomes).await);
    assert_eq!(seen, tokens(&mut witness).await);
    assert!(!seen.is_empty());
    line_has(run, 0).await;
}
