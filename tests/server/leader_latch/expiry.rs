//! Sessions that a real server ends, by its own clock: leadership passes on, the old leader knows first where the clock
//! can tell, and comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zookeeper_recipes::{ConnectionState, ErrorKind, ErrorPolicy};

use super::fixture::{
    Fixture, Handover, Heard, SOON, States, hears, leads, leads_in_the_end, line_becomes, recorder, waits,
};
use crate::support::{Fault, unique_path, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_end_of_its_session_the_old_leader_knows_and_comes_back_with_a_greater_token() {
    let fixture = Fixture::new("expired").await;
    let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(4), ErrorPolicy::Session).await;
    let mut states = States::of(&client);
    let report = unique_path("report");
    fixture.observer.create(&report, b"").await;
    let old = fixture.latch(&client, "old");
    let (listener, mut heard) = recorder();
    old.add_listener(listener);
    let leadership = leads(&old).await;
    let token = leadership.fencing_token();
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    let (session, node) = (client.session_id(), old.our_path().expect("a leader has a node"));
    let new = fixture.latch(&fixture.client().await, "new");
    waits(&new).await;

    proxy.kill_session().await;
    assert!(!fixture.observer.exists(&node).await, "the session is over for the server");
    let next = leads(&new).await;
    assert!(next.fencing_token() > token);
    proxy.cut().await;
    within("the old leader is told", SOON, leadership.lost()).await;
    assert!(!leadership.is_held());
    assert_eq!(hears(&mut heard).await, Heard::NotLeader);
    states.wait_for(ConnectionState::Lost).await;
    let late = client.transaction().check(&leadership.fence()).set_data(&report, b"late", None);
    let refused = late.commit().await.expect_err("its session is over");
    assert!(matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Fenced), "{refused}");

    states.wait_for(ConnectionState::Reconnected).await;
    line_becomes(&new, &["new", "old"]).await;
    assert_ne!(client.session_id(), session);
    let again = waits(&old).await;
    assert_ne!(again, node);
    assert_eq!(fixture.observer.owner(&again).await, client.session_id());
    new.close().await.expect("closed");
    let regained = leads(&old).await;
    assert!(regained.fencing_token() > next.fencing_token());
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(regained.fencing_token()));
    assert!(!leadership.is_held(), "a lost leadership stays lost");
    assert_eq!(fixture.observer.data(&report).await.as_deref(), Some(&b""[..]));
}

/// Cuts a leader off without a word until its session has expired; how long before the next leader's gain it knew.
async fn margin_of_a_leader_cut_off(policy: ErrorPolicy) -> Duration {
    const SESSION: Duration = Duration::from_secs(3);
    let fixture = Fixture::new("cut-off").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, policy).await;
    let mut states = States::of(&client);
    let old = Arc::new(fixture.latch(&client, "old"));
    let leadership = leads(&old).await;
    let session = client.session_id();
    let new = Arc::new(fixture.latch(&fixture.client().await, "new"));
    waits(&new).await;

    let handover = Handover::watch(&old, &new);
    let begin = Instant::now();
    proxy.set(Fault::BlackHole).await;
    let next = leads_in_the_end(&new).await;
    assert!(begin.elapsed() > SESSION / 2, "the server waited for the session to expire");
    let margin = handover.margin(&format!("{policy:?}, cut off")).await;
    assert!(!leadership.is_held());

    within("the old leader is told", SOON, leadership.lost()).await;
    states.wait_for(ConnectionState::Lost).await;
    proxy.set(Fault::Pass).await;
    line_becomes(&new, &["new", "old"]).await;
    assert_ne!(client.session_id(), session);
    new.close().await.expect("closed");
    assert!(leads_in_the_end(&old).await.fencing_token() > next.fencing_token());
    margin
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_knows_before_another_leads() {
    let (standard, session) = tokio::join!(
        margin_of_a_leader_cut_off(ErrorPolicy::Standard),
        margin_of_a_leader_cut_off(ErrorPolicy::Session)
    );
    for margin in [standard, session] {
        // Far more than the time between two questions, or between the gain and its being noted.
        assert!(margin > Duration::from_millis(20), "{standard:?}, {session:?}");
    }
}
