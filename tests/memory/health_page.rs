//! The contents of a health page, as text and as JSON.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::leader_selector::{LeaderSelector, Leadership, SelectorStatus, TermEnd};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::throughput_balancer::allocation::{Allocation, AllocationError, Member};
use zookeeper_recipes::throughput_balancer::{Event, ThroughputBalancer, set_max_throughput};
use zookeeper_recipes::{ConnectionState, RequestCounts};

use crate::fixture::{T, within};

fn json<S: serde::Serialize>(value: &S) -> Value {
    serde_json::to_value(value).expect("it has a form in JSON")
}

#[test]
fn a_status_is_the_word_of_its_display() {
    fn words<S: serde::Serialize + ToString>(all: &[S]) -> Vec<String> {
        let word = |status: &S| {
            assert_eq!(json(status), json!(status.to_string()));
            status.to_string()
        };
        all.iter().map(word).collect()
    }
    use ConnectionState::{Connected, Lost, ReadOnly, Reconnected, Suspended};
    assert_eq!(
        words(&[Connected, Suspended, Reconnected, Lost, ReadOnly]),
        ["connected", "suspended", "reconnected", "lost", "read-only"]
    );
    let latch = [
        LatchStatus::Entering,
        LatchStatus::Waiting,
        LatchStatus::Leading,
        LatchStatus::Suspended,
        LatchStatus::Lost,
        LatchStatus::Failed,
        LatchStatus::Closed,
    ];
    assert_eq!(words(&latch), ["entering", "waiting", "leading", "suspended", "lost", "failed", "closed"]);
    let selector = [
        SelectorStatus::Entering,
        SelectorStatus::Waiting,
        SelectorStatus::Leading,
        SelectorStatus::Ending,
        SelectorStatus::Suspended,
        SelectorStatus::Lost,
        SelectorStatus::Pausing,
        SelectorStatus::Failed,
        SelectorStatus::Idle,
        SelectorStatus::Closed,
    ];
    use zookeeper_recipes::persistent_node::NodeState;
    let node = [NodeState::Creating, NodeState::Present, NodeState::OtherKind, NodeState::Waiting];
    assert_eq!(words(&node), ["creating", "present", "other-kind", "waiting"]);
    let words = words(&selector);
    assert_eq!((&*words[3], &*words[6], &*words[8]), ("ending", "pausing", "idle"));
}

#[test]
fn the_end_of_a_term_is_a_word_or_a_word_with_its_text() {
    let failed = TermEnd::Failed(Arc::new(std::io::Error::other("disk full")));
    for (end, form, text) in [
        (TermEnd::Returned, json!("returned"), "the listener returned"),
        (TermEnd::Lost, json!("lost"), "the leadership was lost"),
        (TermEnd::Interrupted, json!("interrupted"), "the leadership was interrupted"),
        (TermEnd::Panicked("a bug".into()), json!({"panicked": "a bug"}), "the listener panicked: a bug"),
        (failed, json!({"failed": "disk full"}), "the listener failed: disk full"),
    ] {
        assert_eq!((json(&end), end.to_string()), (form, text.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn participants_and_counts_are_shown_with_their_fields() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let latch = LeaderLatch::builder(&client, "/election").id("worker \"7\"").start().expect("a good path");
    let leadership = within("it leads", T, latch.wait_for_leadership()).await.expect("it leads");
    assert!(leadership.is_held());
    let leader = latch.leader().await.expect("an answer").expect("it leads");
    let token = leadership.fencing_token();
    assert_eq!(
        json(&leader),
        json!({
            "id": "worker \"7\"",
            "is_leader": true,
            "path": leader.path,
            "fencing_token": token,
            "priority": null,
            "gives_way": false,
        })
    );
    assert_eq!(leader.to_string(), format!(r#""worker \"7\"" ({}, leading)"#, leader.path));
    let mut waiter = leader.clone();
    waiter.is_leader = false;
    assert_eq!(waiter.to_string(), format!(r#""worker \"7\"" ({})"#, leader.path));

    let node = latch.our_path().expect("it has a node");
    let leads = json!({"status": "leading", "fencing_token": token, "node": node, "error": null});
    assert_eq!(json(&latch.state().get()), leads);
    latch.close().await.expect("closed");
    assert_eq!(
        json(&latch.state().get()),
        json!({"status": "closed", "fencing_token": null, "node": null, "error": null})
    );

    let zeros = "creates=0 deletes=0 reads=0 watches=0 writes=0 lists=0 multis=0 syncs=0 heartbeats=0";
    assert_eq!(RequestCounts::default().to_string(), zeros);
    let counts = client.request_counts();
    let shown = json(&counts);
    assert_eq!((&shown["creates"], &shown["heartbeats"]), (&json!(counts.creates), &json!(counts.heartbeats)));
    assert_eq!(shown.as_object().map(serde_json::Map::len), Some(9));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_shown_with_its_token_and_its_end() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let lead = |_: Leadership| async { Err::<(), _>("disk full") };
    let selector = LeaderSelector::builder(&client, "/election").start(lead).expect("a good path");
    let outcome = within("a term ends", T, selector.outcomes().next()).await.expect("an outcome");
    let token = outcome.fencing_token;
    assert_eq!(json(&outcome), json!({"fencing_token": token, "end": {"failed": "disk full"}, "release_error": null}));
    assert_eq!(outcome.to_string(), format!("the listener failed: disk full (fencing token {token})"));
    let state = json(&selector.state().get());
    assert_eq!((&state["last_outcome"], &state["error"]), (&json!(outcome), &Value::Null), "{state}");
    assert!(state["status"].is_string(), "{state}");
}

#[tokio::test(start_paused = true)]
async fn a_share_and_a_member_are_shown_as_they_are_now() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    set_max_throughput(&client, "/base", 1_000).await.expect("a maximum");
    let member = ThroughputBalancer::builder(&client, "/base").debounce(Duration::ZERO, Duration::ZERO);
    let member = within("it joins", T, member.join()).await.expect("it joins");
    server.until(|| member.throughput() == 1_000).await;
    let share = member.share().get();
    let (epoch, sequence) = (share.epoch(), share.sequence());
    assert_eq!(json(&share), json!({"throughput": 1_000, "is_current": true, "epoch": epoch, "sequence": sequence}));
    assert_eq!(share.to_string(), format!("1000 (epoch {epoch}, sequence {sequence})"));
    let members = member.members().await.expect("an answer");
    let id = member.member_id().expect("it is registered");
    assert_eq!(members[0].to_string(), format!("{id}: 1000 (weight 1, min 0, leading)"));
    let shown = json(&members[0]);
    assert_eq!((&shown["id"], &shown["throughput"], &shown["max"]), (&json!(id), &json!(1_000), &Value::Null));
    member.leave().await;
    assert_eq!(json(&share)["throughput"], json!(0), "a share that was kept is shown as what it is worth");
    let last = member.share().get();
    assert_eq!(json(&last)["is_current"], json!(false));
    assert_eq!(last.to_string(), format!("0 (epoch {epoch}, sequence {sequence}, not current)"));
}

#[test]
fn an_event_of_a_queue_is_shown_by_its_name_with_its_fields() {
    use zookeeper_recipes::queue::{Error, Event};
    let error = Error::Closed { path: "/orders".into() };
    let failed = json!({"event": "failed", "error": error.to_string()});
    assert_eq!(json(&Event::Failed { error }), failed);
    let dropped = Event::Interrupted { item: "queue-0".into(), attempt: 2, claim_lost: true };
    let form = json!({"event": "interrupted", "item": "queue-0", "attempt": 2, "claim_lost": true});
    assert_eq!(json(&dropped), form);
}

#[tokio::test(start_paused = true)]
async fn a_value_is_shown_with_its_version_and_bytes_that_are_none_as_text() {
    use zookeeper_recipes::shared_value::SharedCount;
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let count = SharedCount::count(&client, "/count").seed(4).start().await.expect("it starts");
    let value = count.get().expect("a value");
    assert_eq!(json(&value), json!({"value": 4, "version": 0}));
    for (data, shown) in [(&b"none!"[..], r#""none!""#), (&[b'a', 0xff], r#"b"a\xff""#)] {
        server.set_data_by_hand("/count", data).expect("it is there");
        let error = within("it is read", T, count.synced()).await.expect_err("no count").to_string();
        assert!(error.contains(shown), "{error}");
    }
}

#[test]
fn an_event_of_a_balancer_is_shown_by_its_name_with_its_fields() {
    let shortfall = Allocation::FairShare.divide(90, &[Member::new("a").min(80), Member::new("b").min(40)]);
    let shortfall = shortfall.expect("good members").shortfall.expect("120 are more than 90");
    let duplicate = AllocationError::DuplicateId { id: "a".into() };
    for (event, form, text) in [
        (Event::TookOver { epoch: 7 }, json!({"event": "took-over", "epoch": 7}), "this member took over with epoch 7"),
        (
            Event::Settled { maximum: 9, members: 2, shared: 8 },
            json!({"event": "settled", "maximum": 9, "members": 2, "shared": 8}),
            "settled: 8 of 9 are shared, members: 2",
        ),
        (
            Event::NotDivided { error: duplicate },
            json!({"event": "not-divided", "error": "two members have the id \"a\""}),
            "the maximum was not divided: two members have the id \"a\"",
        ),
        (
            Event::MemberIgnored { member: "m".into(), held: u64::MAX, why: "no record".into() },
            json!({"event": "member-ignored", "member": "m", "held": u64::MAX, "why": "no record"}),
            "m is ignored, and may be applying any throughput: no record",
        ),
        (
            Event::Shortfall { shortfall },
            json!({"event": "shortfall", "shortfall": {"missing": 30, "members": [
                {"id": "a", "share": 60, "wanted": 80}, {"id": "b", "share": 30, "wanted": 40},
            ]}}),
            "shortfall: 30 are missing for the minima of 2 members (\"a\": 60 of 80, \"b\": 30 of 40)",
        ),
    ] {
        assert_eq!((json(&event), event.to_string()), (form, text.to_owned()));
    }
}
