//! Lost connections and lost answers.

use std::time::{Duration, Instant};

use futures::StreamExt;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{ConnectionState, CreateMode, ErrorKind, RetryPolicy};

use super::fixture::{Fixture, SOON, T};
use crate::support::{Fault, How, OpCode, eventually, unique_path, within};

#[tokio::test]
async fn a_write_made_while_disconnected_fails_in_time_and_never_happens() {
    let wait = Duration::from_secs(1);
    let fixture = Fixture::with(|builder| builder.connection_timeout(wait).retry(RetryPolicy::never())).await;
    let Fixture { proxy, client, outside, .. } = &fixture;
    let path = unique_path("gate");
    client.create(&path, b"before", CreateMode::Persistent).await.unwrap();
    let session = client.session_id();
    proxy.set(Fault::Refuse).await;
    eventually("the loss is seen", SOON, async || client.connection_state() == ConnectionState::Suspended).await;
    let began = Instant::now();
    let error = client.set(&path, b"zombie", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
    assert!(error.to_string().contains("127.0.0.1"), "the servers are named: {error}");
    assert!(began.elapsed() >= wait && began.elapsed() < T);
    proxy.set(Fault::Pass).await;
    eventually("the connection is back", SOON, async || client.connection_state().is_connected()).await;
    // Whatever the layers below kept would go out before this read.
    assert_eq!(client.get(&path).await.unwrap().0, b"before");
    assert_eq!(client.session_id(), session);
    assert_eq!(outside.data(&path).await.unwrap(), b"before");
}

#[tokio::test]
async fn a_write_without_an_answer_has_an_unknown_outcome() {
    for how in [How::Fin, How::Rst, How::Silence] {
        let fixture = Fixture::new().await;
        let Fixture { proxy, client, outside, .. } = &fixture;
        let path = unique_path("unknown");
        client.create(&path, b"before", CreateMode::Persistent).await.unwrap();
        let lost = proxy.lose_reply_of(OpCode::SetData, how);
        let error = within("an error", SOON, client.set(&path, b"after", None)).await.unwrap_err();
        assert!(lost.has_fired());
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{how:?}: {error}");
        assert_eq!(outside.data(&path).await.unwrap(), b"after");
    }
}

#[tokio::test]
async fn a_write_given_up_by_time_has_an_unknown_outcome_at_once() {
    let wait = Duration::from_secs(1);
    let fixture = Fixture::with(|builder| builder.connection_timeout(wait)).await;
    let Fixture { proxy, client, .. } = &fixture;
    let path = unique_path("slow");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    proxy.set(Fault::BlackHole).await;
    let began = Instant::now();
    let error = client.set(&path, b"", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(began.elapsed() >= wait && began.elapsed() < T, "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_can_be_repeated_is_repeated() {
    for how in [How::Fin, How::Rst, How::Silence] {
        let fixture = Fixture::new().await;
        let Fixture { proxy, client, outside, .. } = &fixture;
        let path = unique_path("repeat");
        client.create(&path, b"x", CreateMode::Ephemeral).await.unwrap();
        let lost = proxy.lose_reply_of(OpCode::GetData, how);
        assert_eq!(within("a read", SOON, client.get(&path)).await.unwrap().0, b"x");
        assert!(lost.has_fired(), "{how:?}");

        let lost = proxy.lose_reply_of(OpCode::Delete, how);
        within("a delete", SOON, client.delete(&path, None)).await.unwrap();
        assert!(lost.has_fired(), "{how:?}");
        assert!(!outside.exists(&path).await);
    }
}

#[tokio::test]
async fn an_ephemeral_create_is_told_apart_from_another_one_by_the_same_session() {
    let fixture = Fixture::new().await;
    let Fixture { proxy, client, outside, .. } = &fixture;
    let path = unique_path("once");
    client.create(&path, b"first", CreateMode::Ephemeral).await.unwrap();
    let error = client.create(&path, b"second", CreateMode::Ephemeral).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NodeExists);
    let other = unique_path("unanswered");
    let lost = proxy.lose_reply_of(OpCode::Create2, How::Fin);
    let error = within("an error", SOON, client.create(&other, b"", CreateMode::Ephemeral)).await.unwrap_err();
    assert!(lost.has_fired());
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(outside.owner(&other).await, client.session_id(), "it was created");
}

#[tokio::test]
async fn a_persistent_create_and_a_transaction_are_not_repeated() {
    let fixture = Fixture::new().await;
    let Fixture { proxy, client, outside, .. } = &fixture;
    let path = unique_path("once");
    let mut states = client.connection_states();
    let lost = proxy.lose_reply_of(OpCode::Create2, How::Fin);
    let error = client.create(&path, b"", CreateMode::Persistent).await.unwrap_err();
    assert!(lost.has_fired());
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(outside.exists(&path).await);
    // A new connection is confirmed by a transaction of its own.
    while within("a state", SOON, states.next()).await.unwrap().unwrap() != ConnectionState::Reconnected {}
    let lost = proxy.lose_reply_of(OpCode::Multi, How::Rst);
    let error = client.transaction().set_data(&path, b"1", None).commit().await.unwrap_err();
    assert!(lost.has_fired());
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(outside.stat(&path).await.unwrap().version, 1, "applied, once");
}

#[tokio::test]
async fn a_transaction_and_a_read_end_after_the_connection_timeout() {
    let wait = Duration::from_secs(1);
    let fixture = Fixture::with(|builder| builder.connection_timeout(wait)).await;
    let Fixture { proxy, client, outside, .. } = &fixture;
    let path = unique_path("bounded");
    client.create(&path, b"before", CreateMode::Persistent).await.unwrap();
    proxy.set(Fault::Refuse).await;
    eventually("the loss is seen", SOON, async || client.connection_state() == ConnectionState::Suspended).await;
    let began = Instant::now();
    let error = client.transaction().set_data(&path, b"late", None).commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
    assert!(began.elapsed() < T / 2, "{:?}", began.elapsed());
    proxy.set(Fault::Pass).await;
    eventually("the connection is back", SOON, async || client.connection_state().is_connected()).await;
    assert_eq!(client.get(&path).await.unwrap().0, b"before");
    assert_eq!(outside.data(&path).await.unwrap(), b"before");

    proxy.set(Fault::BlackHole).await;
    let began = Instant::now();
    let error = client.get(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
    assert!(began.elapsed() >= wait && began.elapsed() < T / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_outage_of_nearly_the_session_timeout_keeps_the_session() {
    let fixture = Fixture::new().await;
    let Fixture { proxy, client, .. } = &fixture;
    let session = client.session_id();
    // The servers count from here.
    client.exists("/").await.unwrap();
    let cut = Instant::now();
    proxy.set(Fault::Refuse).await;
    eventually("the loss is seen", SOON, async || client.connection_state() == ConnectionState::Suspended).await;
    // The outage itself.
    tokio::time::sleep_until((cut + T.mul_f64(0.8)).into()).await;
    proxy.set(Fault::Pass).await;
    eventually("the connection is back", SOON, async || client.connection_state().is_connected()).await;
    assert_eq!(client.session_id(), session);
    assert_eq!(client.connection_state(), ConnectionState::Reconnected);
}

#[tokio::test]
async fn more_watches_than_one_request_can_restore_survive_a_reconnect() {
    let fixture = Fixture::new().await;
    let Fixture { proxy, client, .. } = &fixture;
    // Together they need several requests of 128 KiB.
    let stage = format!("{}/{}", unique_path("crowd"), "x".repeat(900));
    let latches: Vec<_> =
        (0..400).map(|n| LeaderLatch::builder(client, format!("{stage}/{n}")).start().unwrap()).collect();
    for latch in &latches {
        let led = within("an outcome", Duration::from_secs(30), latch.wait_for_leadership()).await;
        assert!(led.unwrap().is_held());
    }
    let session = client.session_id();
    proxy.cut().await;
    eventually("all lead again", SOON, async || latches.iter().all(LeaderLatch::has_leadership)).await;
    assert_eq!(client.session_id(), session);
}
