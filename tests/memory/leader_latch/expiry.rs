//! Sessions that end: leadership passes on, the old leader knows first where the clock can tell, and comes back.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::leader_latch::LatchStatus;
use zookeeper_recipes::testing::{Data, TestingServer};
use zookeeper_recipes::{ConnectionState, CreateMode, ErrorKind, ErrorPolicy};

use super::fixture::{
    Heard, PATH, States, hears, latch, leads, leads_in_the_end, line_becomes, make_directory, node_of, reaches,
    recorder, setup, waits,
};
use crate::fixture::{SOON, T, client_with, within};

#[tokio::test(start_paused = true)]
async fn after_the_end_of_its_session_the_old_leader_knows_and_comes_back_with_a_greater_token() {
    const REPORT: &str = "/report";
    let (server, [bystander]) = setup().await;
    let client = client_with(&server, ErrorPolicy::Session).await;
    let mut states = States::of(&client);
    server.create_by_hand(REPORT, "", CreateMode::Persistent).expect("a new node");
    let old = latch(&client, "old");
    let (listener, mut heard) = recorder();
    old.add_listener(listener);
    let leadership = leads(&old).await;
    let token = leadership.fencing_token();
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(token));
    let (session, node) = (client.session_id(), node_of(&old));
    let new = latch(&bystander, "new");
    waits(&new).await;

    assert!(server.expire_session(&client));
    let next = within("the next one leads", SOON, leads(&new)).await;
    assert_eq!(server.stat(&node), None);
    assert!(next.fencing_token() > token);
    within("the old leader is told", SOON, leadership.lost()).await;
    assert!(!leadership.is_held());
    assert_eq!(hears(&mut heard).await, Heard::NotLeader);
    states.wait_for(ConnectionState::Lost).await;
    let late = client.transaction().check(&leadership.fence()).set_data(REPORT, b"late", None);
    let refused = late.commit().await.expect_err("its session is over");
    assert!(matches!(refused.kind(), ErrorKind::SessionLost | ErrorKind::Fenced), "{refused}");

    states.wait_for(ConnectionState::Reconnected).await;
    line_becomes(&new, &["new", "old"]).await;
    assert_ne!(client.session_id(), session);
    let again = waits(&old).await;
    assert_ne!(again, node);
    assert_eq!(server.stat(&again).map(|stat| stat.ephemeral_owner), client.session_id());
    new.close().await.expect("closed");
    let regained = leads(&old).await;
    assert!(regained.fencing_token() > next.fencing_token());
    assert_eq!(hears(&mut heard).await, Heard::IsLeader(regained.fencing_token()));
    assert!(!leadership.is_held(), "a lost leadership stays lost");
    assert_eq!(server.get(REPORT).as_deref(), Some(&b""[..]));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_knows_before_another_leads() {
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let (server, [bystander]) = setup().await;
        let client = client_with(&server, policy).await;
        let mut states = States::of(&client);
        let old = latch(&client, "old");
        let leadership = leads(&old).await;
        let session = client.session_id();
        let new = latch(&bystander, "new");
        waits(&new).await;

        let begin = Instant::now();
        server.black_hole(&client);
        // Asked all the time, as only the clock tells it.
        let mut believed = Duration::ZERO;
        while !new.has_leadership() {
            assert!(begin.elapsed() < T * 2, "{policy:?}: the session expires");
            tokio::time::sleep(Duration::from_millis(1)).await;
            if old.has_leadership() || leadership.is_held() {
                believed = begin.elapsed();
            }
        }
        let gained = begin.elapsed();
        assert!(gained > T / 2, "{policy:?}: the server waited for the session to expire");
        // Far more than the time between two questions.
        assert!(believed + Duration::from_millis(20) < gained, "{policy:?}: {believed:?}, {gained:?}");
        let next = leads(&new).await;

        within("the old leader is told", SOON, leadership.lost()).await;
        states.wait_for(ConnectionState::Lost).await;
        server.heal();
        line_becomes(&new, &["new", "old"]).await;
        assert_ne!(client.session_id(), session);
        new.close().await.expect("closed");
        assert!(leads_in_the_end(&old).await.fencing_token() > next.fencing_token());
    }
}

/// The client must consider its session over while the servers still have it.
#[tokio::test(start_paused = true)]
async fn the_node_of_a_session_that_was_given_up_is_deleted_through_the_next_one() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    make_directory(&server);
    let latch = latch(&client, "latch");
    reaches(&latch, LatchStatus::Leading).await;
    let (old, session) = (node_of(&latch), client.session_id());
    // Time is paused for sessions while the servers are stopped.
    server.stop();
    server.until(|| client.session_id() != session).await;
    server.restart(Data::Kept);
    assert_eq!(server.children(PATH).len(), 1, "the servers know of nothing yet");
    let begun = Instant::now();
    reaches(&latch, LatchStatus::Leading).await;
    server.until(|| server.stat(&old).is_none()).await;
    assert!(begun.elapsed() < T / 2, "the servers did not do it");
}
