//! The life of a client: connecting, its states, closing; and the server in memory that the other tests use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{sleep, timeout};
use zookeeper_recipes::testing::Target;
use zookeeper_recipes::{Client, ConnectionState, ConnectionStates, Error, ErrorKind};

use crate::harness::{Run, cases};

cases! {
    connect: "ClientBuilder::connect", at least 70 drops, 5 faults;
    connect_while_refused: "ClientBuilder::connect", at least 80 drops, 0 faults;
    client: "TestingServer::client", at least 70 drops, 5 faults;
    close: "Client::close", at least 90 drops, 30 faults;
    states: "ConnectionStates::next", at least 60 drops, 20 faults;
    until: "TestingServer::until", at least 110 drops, 40 faults;
    task: "Task::await", at least 60 drops, 20 faults;
}

/// Checks that the session that was being opened, if any, is gone after its timeout at the latest, and that another one
/// can be opened.
async fn is_undone(run: &mut Run, connected: Option<Result<Client, Error>>) {
    drop(connected.map(|client| client.expect("the server answers")));
    let none_left = || run.server().sessions().is_empty();
    run.in_the_end("the session is closed, or expires", none_left).await;
    run.client().await;
}

async fn connect(run: &mut Run) {
    let connect = Client::builder_for_testing(run.server()).session_timeout(Duration::from_secs(10)).connect();
    let connected = run.cut(connect).await.done();
    is_undone(run, connected).await;
}

async fn client(run: &mut Run) {
    let server = run.server().clone();
    let connected = run.cut(server.client()).await.done();
    is_undone(run, connected).await;
}

/// A connect that retries must stop when its future is dropped.
async fn connect_while_refused(run: &mut Run) {
    run.server().refuse(Target::ALL);
    let connect = Client::builder_for_testing(run.server()).connection_timeout(Duration::from_millis(700)).connect();
    if let Some(connected) = run.cut(connect).await.done() {
        assert_eq!(connected.expect_err("there was no reply").kind(), ErrorKind::ConnectionLoss);
    }
    // From now on, a session could be opened.
    sleep(Duration::from_secs(5)).await;
    assert!(run.server().sessions().is_empty(), "a session was opened after its connect was dropped");
    run.client().await;
}

/// Once polled, the close is carried out at once; if never polled, it is not.
async fn close(run: &mut Run) {
    let client = run.client().await;
    run.other_client().await;
    let done = run.cut(client.close()).await.done();
    assert_eq!(client.is_closed(), run.is_polled());
    if !run.is_polled() {
        return;
    }
    if run.is_calm() {
        run.in_time("it is closed, not left to expire", Duration::from_secs(2), || run.server().sessions().len() == 1)
            .await;
        assert!(done.is_none_or(|done| done.is_ok()));
        client.close().await.expect("closing twice is fine");
    } else {
        // The close must not hang if it could not reach a server.
        let again = timeout(Duration::from_secs(15), client.close()).await.expect("it ends");
        assert!(done.is_none_or(|done| done == again));
        run.in_the_end("closed, or expired", || run.server().sessions().len() == 1).await;
    }
    assert_eq!(client.exists("/").await.expect_err("it is closed").kind(), ErrorKind::Closed);
}

/// The next call returns a state that was not received yet.
async fn states(run: &mut Run) {
    let client = run.client().await;
    let (mut states, mut witness) = (client.connection_states(), client.connection_states());
    assert_eq!(states.next().await, Some(Ok(ConnectionState::Connected)));
    run.later(&client, Duration::from_millis(30), |server| {
        // After a fault there may be no connection to cut.
        server.disconnect(Target::ALL);
    });
    let mut seen = vec![Ok(ConnectionState::Connected)];
    seen.extend(run.cut(states.next()).await.done().flatten());
    sleep(Duration::from_secs(5)).await;
    seen.extend(those_at_hand(&mut states));
    let all = those_at_hand(&mut witness);
    assert_eq!(seen, all);
    assert!(all.len() >= 3 && all.last() == Some(&Ok(ConnectionState::Reconnected)), "{all:?}");
}

fn those_at_hand(states: &mut ConnectionStates) -> Vec<Result<ConnectionState, zookeeper_recipes::Lagged>> {
    use futures::FutureExt;
    std::iter::from_fn(|| states.next().now_or_never().flatten()).collect()
}

async fn until(run: &mut Run) {
    let client = run.client().await;
    let server = run.server().clone();
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    run.later(&client, Duration::from_millis(2), move |_| set.store(true, Ordering::SeqCst));
    if run.cut(server.until(|| flag.load(Ordering::SeqCst))).await.done().is_some() {
        assert!(flag.load(Ordering::SeqCst));
    }
}

/// The task continues without its handle.
async fn task(run: &mut Run) {
    let client = run.client().await;
    let done = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&done);
    let task = run.server().spawn(&client, async move {
        sleep(Duration::from_millis(10)).await;
        set.store(true, Ordering::SeqCst);
        7
    });
    if let Some(outcome) = run.cut(task).await.done() {
        assert_eq!(outcome, Ok(7));
    }
    run.in_the_end("the task has run", || done.load(Ordering::SeqCst)).await;
}
