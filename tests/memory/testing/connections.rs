//! Between a client and the servers: `disconnect`, `refuse`, `black_hole`, `delay`, `heal`, and the usual latency.

use std::time::Duration;

use zookeeper_recipes::ConnectionState::{Lost, Reconnected, Suspended};
use zookeeper_recipes::testing::{Loss, Operation, Target, TestingServer};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{A_MOMENT, States, T, connect, create, session, timed};

#[tokio::test(start_paused = true)]
async fn disconnect_cuts_once_and_the_session_comes_back() {
    let server = TestingServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.create("/mine", "", CreateMode::Ephemeral).await.unwrap();
    let (mut states, mut others) = (States::of(&client).await, States::of(&other).await);
    let id = client.session_id();
    assert_eq!(server.disconnect(&client), 1);
    assert_eq!(server.disconnect(&client), 0, "there is none any more");
    states.are(&[Suspended, Reconnected]).await;
    assert_eq!(client.session_id(), id);
    assert_eq!(server.paths(), ["/mine"]);
    others.are_at_rest();
    assert_eq!(server.disconnect(Target::ALL), 2);
    states.are(&[Suspended, Reconnected]).await;
    others.are(&[Suspended, Reconnected]).await;
}

#[tokio::test(start_paused = true)]
async fn refuse_leaves_the_open_connection_and_allows_no_other_until_heal() {
    let server = TestingServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let (mut states, id) = (States::of(&client).await, client.session_id());
    server.refuse(&client);
    create(&client, "/works").await;
    server.disconnect(Target::ALL);
    States::of(&other).await;
    states.are(&[Suspended]).await;
    tokio::time::sleep(T / 5).await;
    states.are_at_rest();
    create(&other, "/the-other-one-came-back").await;
    server.heal();
    let (took, ()) = timed(states.are(&[Reconnected])).await;
    assert!(took < T / 4, "{took:?}");
    assert_eq!(client.session_id(), id);
}

#[tokio::test(start_paused = true)]
async fn refuse_for_longer_than_the_session_costs_the_session() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    client.create("/mine", "", CreateMode::Ephemeral).await.unwrap();
    let mut states = States::of(&client).await;
    server.refuse(&client);
    server.disconnect(&client);
    states.are(&[Suspended, Lost]).await;
    server.until(|| server.paths().is_empty()).await;
    assert_eq!(server.sessions(), []);
    server.heal();
    states.are(&[Reconnected]).await;
}

#[tokio::test(start_paused = true)]
async fn refuse_keeps_new_clients_out() {
    let server = TestingServer::start();
    server.refuse(Target::ALL);
    let refused = server.client().await.expect_err("every connection is refused");
    assert_eq!(refused.kind(), ErrorKind::ConnectionLoss);
    server.heal();
    connect(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_short_black_hole_only_makes_things_late() {
    let server = TestingServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let mut states = States::of(&client).await;
    server.black_hole(&client);
    let late = server.spawn(&client, {
        let client = client.clone();
        async move { client.create("/late", "", CreateMode::Persistent).await }
    });
    tokio::time::sleep(T / 5).await;
    create(&other, "/others").await;
    assert_eq!(server.paths(), ["/others"], "nothing comes through");
    server.heal();
    let (took, created) = timed(late).await;
    assert_eq!(created.expect("it ends").expect("it is created"), "/late");
    assert!(took < A_MOMENT, "{took:?}");
    states.are_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_long_black_hole_is_noticed_by_the_silence() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    let mut states = States::of(&client).await;
    server.black_hole(&client);
    let (took, ()) = timed(states.are(&[Suspended])).await;
    assert!(took > T / 10 && took < T, "{took:?}");
    states.are(&[Lost]).await;
    server.until(|| server.sessions().is_empty()).await;
    server.heal();
    states.are(&[Reconnected]).await;
}

#[tokio::test(start_paused = true)]
async fn delay_is_added_to_each_message_of_that_client_alone() {
    let server = TestingServer::builder().latency(Duration::ZERO..=Duration::ZERO).start();
    let (slow, fast) = (connect(&server).await, connect(&server).await);
    let by = Duration::from_millis(70);
    server.delay(&slow, by);
    let (took, found) = timed(slow.exists("/")).await;
    assert!(found.unwrap().is_some());
    assert!(took >= by * 2 && took < by * 2 + A_MOMENT, "there and back: {took:?}");
    let (took, _) = timed(fast.exists("/")).await;
    assert!(took < by, "{took:?}");
    server.delay(Target::ALL, by);
    let (took, _) = timed(fast.exists("/")).await;
    assert!(took >= by * 2, "{took:?}");
    server.heal();
    let (took, _) = timed(slow.exists("/")).await;
    assert!(took < by, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn latency_is_what_each_message_takes() {
    let millis = Duration::from_millis;
    let server = TestingServer::builder().latency(millis(20)..=millis(30)).start();
    let client = connect(&server).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let (took, found) = timed(client.exists("/")).await;
        found.unwrap();
        assert!(took >= millis(40) && took <= millis(65), "{took:?}");
        seen.insert(took);
    }
    assert!(seen.len() > 5, "drawn again for each: {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn heal_ends_lasting_faults_and_forgets_losses_but_thaws_no_client_and_starts_no_server() {
    let server = TestingServer::start();
    let (client, frozen) = (connect(&server).await, connect(&server).await);
    let mut states = States::of(&client).await;
    server.refuse(&client);
    server.black_hole(&client);
    server.delay(Target::ALL, T);
    server.lose_next_reply(&client, Operation::Exists, Loss::Applied);
    server.freeze_client(&frozen);
    server.heal();
    let (took, found) = timed(client.exists("/")).await;
    assert!(took < A_MOMENT && found.unwrap().is_some());
    assert_eq!(server.lost_replies(), 0);
    states.are_at_rest();
    assert!(server.is_frozen(&frozen));
    server.stop();
    server.heal();
    states.are(&[Suspended]).await;
    tokio::time::sleep(T / 5).await;
    states.are_at_rest();
    assert!(session(&server, &client).is_some_and(|session| !session.connected));
}
