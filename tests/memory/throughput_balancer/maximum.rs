//! The maximum: valid data of its node, its creation and replacement, and how a leader applies it.

use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::throughput_balancer::{Error, Event, set_max_throughput};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{BASE, MAXIMUM, have, joined, node, setup};
use super::transition::told;

#[tokio::test(start_paused = true)]
async fn a_maximum_that_makes_no_sense_keeps_the_shares_and_is_told_and_a_good_one_counts_again() {
    let (server, clients) = setup(3).await;
    let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
    have(&server, &[&one, &two], &[500, 500]).await;
    let mut events = one.events();
    for bad in ["", "-5", "lots", "12.5", "99999999999999999999"] {
        server.set_data_by_hand(MAXIMUM, bad).expect("set");
        have(&server, &[&one, &two], &[500, 500]).await;
        let told = told(&mut events);
        let why = format!("{told:?}");
        assert!(matches!(told[..], [Event::MaximumInvalid { .. }]) && why.contains(&format!("\\\"{bad}\\\"")), "{why}");
    }
    // The same again: no share changes, and yet it is reported.
    set_max_throughput(&clients[2], BASE, 1_000).await.expect("set");
    have(&server, &[&one, &two], &[500, 500]).await;
    assert_eq!(told(&mut events), [Event::Settled { maximum: 1_000, members: 2, shared: 1_000 }]);
    server.delete_by_hand(MAXIMUM).expect("deleted");
    let three = joined(&clients[2]).await;
    have(&server, &[&one, &two, &three], &[500, 500, 0]).await;
    let missing =
        |told: Vec<Event>| matches!(&told[..], [Event::MaximumInvalid { why }] if why.contains("does not exist"));
    assert!(missing(told(&mut events)));
    assert!(missing(told(&mut one.events())), "also who listens only now is told");
    assert_eq!(told(&mut two.events()), [], "that is the leader's concern");
    set_max_throughput(&clients[2], BASE, 600).await.expect("set");
    have(&server, &[&one, &two, &three], &[200, 200, 200]).await;
    assert_eq!(told(&mut one.events()), []);
}

#[tokio::test(start_paused = true)]
async fn a_maximum_that_another_client_replaced_before_our_create_was_answered_is_not_set_twice() {
    let latency = Duration::from_millis(3);
    let server = TestingServer::builder().latency(latency..=latency).start();
    let client = server.client().await.expect("a client");
    server.create_by_hand(BASE, "", CreateMode::Persistent).expect("created");
    server.create_by_hand(&format!("{BASE}/global-config"), "", CreateMode::Persistent).expect("created");
    let of = client.clone();
    let setting = server.spawn(&client, async move { set_max_throughput(&of, BASE, 700).await });
    // The directory is there; then the node.
    server.until(|| server.count(&client, Operation::Create) == 2).await;
    server.lose_next_reply(&client, Some(Operation::Create), Loss::Applied);
    server.until(|| server.get(MAXIMUM).is_some()).await;
    server.set_data_by_hand(MAXIMUM, "500").expect("set");
    let error = setting.await.expect("no panic").expect_err("the outcome is unknown");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(server.get(MAXIMUM).expect("it is there"), b"500");
}

#[tokio::test(start_paused = true)]
async fn a_maximum_is_created_once_whatever_becomes_of_the_answer_and_leads_to_one_take_over() {
    for loss in [None, Some(Loss::Applied), Some(Loss::NotApplied)] {
        let (server, clients) = setup(2).await;
        server.delete_by_hand(MAXIMUM).expect("deleted");
        let one = joined(&clients[0]).await;
        have(&server, &[&one], &[0]).await;
        let mut events = one.events();
        told(&mut events);
        if let Some(loss) = loss {
            server.lose_next_reply(&clients[1], Some(Operation::Multi), loss);
        }
        set_max_throughput(&clients[1], BASE, 700).await.expect("set");
        have(&server, &[&one], &[700]).await;
        assert_eq!(server.stat(MAXIMUM).expect("it is there").version, 0);
        let all = told(&mut events);
        assert!(
            matches!(&all[..], [Event::TookOver { .. }, Event::Settled { maximum: 700, members: 1, shared: 700 }]),
            "{loss:?}: {all:?}"
        );
    }
}

/// Sets a maximum of 700 through a client whose answer is lost although the write is carried out, and that is cut off
/// for `outage`, far longer than its connection timeout. `expired`: its session ends meanwhile.
async fn set_through_an_outage(outage: Duration, expired: bool) -> Result<(), Error> {
    let (server, _clients) = setup(1).await;
    let client = Client::builder_for_testing(&server)
        .session_timeout(Duration::from_secs(40))
        .connection_timeout(Duration::from_secs(5))
        .connect()
        .await
        .expect("a client");
    server.lose_next_reply(&client, Some(Operation::SetData), Loss::Applied);
    let setting = tokio::spawn({
        let client = client.clone();
        async move { set_max_throughput(&client, BASE, 700).await }
    });
    server.until(|| server.get(MAXIMUM).is_some_and(|maximum| maximum == b"700")).await;
    server.refuse(&client);
    if expired {
        server.expire_session(&client);
    }
    sleep(outage).await;
    server.heal();
    setting.await.expect("no panic")
}

#[tokio::test(start_paused = true)]
async fn a_maximum_whose_answer_is_lost_is_looked_up_after_an_outage_that_the_session_survives() {
    set_through_an_outage(Duration::from_secs(20), false).await.expect("set");
}

#[tokio::test(start_paused = true)]
async fn a_maximum_whose_answer_is_lost_with_the_session_is_not_reported_as_unset() {
    let error = set_through_an_outage(Duration::from_secs(90), true).await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_maximum_is_not_created_by_one_that_may_not_write_the_epoch() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    have(&server, &[&one], &[1000]).await;
    server.delete_by_hand(MAXIMUM).expect("deleted");
    server.deny("/throughput/epoch");
    let error = set_max_throughput(&clients[1], BASE, 700).await.expect_err("denied");
    assert_eq!((error.kind(), server.get(MAXIMUM)), (ErrorKind::NoAuth, None));
    server.allow("/throughput/epoch");
    set_max_throughput(&clients[1], BASE, 700).await.expect("set");
    have(&server, &[&one], &[700]).await;
}

#[tokio::test(start_paused = true)]
async fn no_raise_comes_late_after_the_maximum_was_deleted_and_set_again() {
    for offset in 0..40 {
        let (server, clients) = setup(3).await;
        let (one, two) = (joined(&clients[0]).await, joined(&clients[1]).await);
        have(&server, &[&one, &two], &[500, 500]).await;
        let share = || {
            let record = server.get(&node(&one)).expect("a record");
            let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
            record["throughput"].as_u64().expect("a number")
        };
        // The leader acts late.
        server.delay(&clients[0], Duration::from_millis(10));
        two.leave().await;
        tokio::time::sleep(Duration::from_millis(offset)).await;
        server.delete_by_hand(MAXIMUM).expect("deleted");
        set_max_throughput(&clients[2], BASE, 400).await.expect("set");
        let before = share();
        for _ in 0..100 {
            assert!(share() <= before, "{before}, then {} of a maximum of 400, {offset} ms after it left", share());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.heal();
        have(&server, &[&one], &[400]).await;
    }
}

/// Only an answer to the write itself leaves open whether it was carried out.
#[tokio::test(start_paused = true)]
async fn a_maximum_whose_node_cannot_be_read_is_not_said_to_be_written_perhaps() {
    for (of, kind) in [(Operation::GetData, ErrorKind::Other), (Operation::Multi, ErrorKind::OutcomeUnknown)] {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        if of == Operation::GetData {
            set_max_throughput(&client, BASE, 600).await.expect("set");
        }
        server.lose_next_reply(&client, of, Loss::Malformed);
        let Err(Error::Client { error, .. }) = set_max_throughput(&client, BASE, 700).await else { panic!("{of:?}") };
        let text = error.to_string();
        assert_eq!((error.kind(), text.contains("its answer cannot be read")), (kind, true), "{of:?}: {text}");
        assert_eq!(text.contains("may have been"), kind == ErrorKind::OutcomeUnknown, "{of:?}: {text}");
    }
}
