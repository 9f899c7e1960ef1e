//! ClickHouse Keeper's dialect: no session is resumed, and what the servers do not know ends the connection.

use std::time::Duration;

use futures::StreamExt;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::testing::{Dialect, Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, ConnectionState, CreateMode, ErrorKind, ErrorPolicy, Heartbeat, WatchMode};

use crate::fixture::{SOON, T, within};

const PATH: &str = "/app/locks/one";

async fn keeper(dialect: Dialect) -> (TestingServer, Client) {
    let server = TestingServer::builder().dialect(dialect).start();
    let client = Client::builder_for_testing(&server).session_timeout(T).connect().await.expect("a client");
    (server, client)
}

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, PATH).expect("a good path")
}

#[tokio::test(start_paused = true)]
async fn what_the_servers_lack_costs_two_sessions_each_and_is_done_without_from_then_on() {
    let (server, client) = keeper(Dialect::Keeper).await;
    let guard = within("the first lock", T, mutex(&client).acquire()).await.expect("held");
    // For create2, the containers above the node, and the removal of a watch.
    assert_eq!(server.sessions().len(), 7);
    within("its release", SOON, guard.release()).await.expect("released");
    for round in 0..20 {
        let mutex = InterProcessMutex::new(&client, format!("/app/locks/{round}")).expect("a good path");
        let guard = within("the next lock", SOON, mutex.acquire()).await.expect("held");
        assert!(guard.fencing_token() > 0);
        within("its release", SOON, guard.release()).await.expect("released");
    }
    assert_eq!(client.connection_state(), ConnectionState::Reconnected);
    tokio::time::sleep(T * 2).await;
    assert_eq!(server.sessions().len(), 1, "what was left expires");
    assert!(server.panics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_a_cut_the_client_is_back_at_once_and_two_never_hold() {
    let (server, one) = keeper(Dialect::Keeper26).await;
    let two = Client::builder_for_testing(&server).session_timeout(T).connect().await.expect("a client");
    let (one_mutex, two_mutex) = (mutex(&one), mutex(&two));
    let guard = within("the lock", T, one_mutex.acquire()).await.expect("held");
    let mut waiting = Box::pin(two_mutex.acquire());
    crate::fixture::still_pending("the lock is held", &mut waiting).await;
    let before = one.session_id();
    let sessions = server.sessions().len();
    server.disconnect(&one);
    within("it is told", SOON, guard.lost()).await;
    server.until(|| one.session_id().is_some_and(|id| Some(id) != before)).await;
    within("it is of use", SOON, one.exists("/app")).await.expect("an answer");
    assert!(server.sessions().len() <= sessions + 1, "{:?}", server.sessions());
    assert_eq!(one.last_error().map(|error| error.to_string()), None);
    let next = within("the next holder", T * 2, waiting).await.expect("held");
    assert!(!guard.is_held() && next.is_held());
    drop(guard);
    next.release().await.expect("released");
}

#[tokio::test(start_paused = true)]
async fn what_nothing_can_replace_is_an_error_that_names_it() {
    let (server, client) = keeper(Dialect::Keeper).await;
    let mut events = client.watch("/", WatchMode::Persistent).expect("a good path");
    let error = loop {
        // First it may be told that events were missed.
        match within("an error", T * 3, events.next()).await.expect("no end before") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unimplemented, "{error}");
    assert!(error.to_string().contains("addWatch (needs ZooKeeper 3.6 or ClickHouse Keeper"), "{error}");
    assert!(server.panics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_and_a_transaction_are_created_without_create2() {
    let (server, client) = keeper(Dialect::Keeper).await;
    for _ in 0..2 {
        let before = client.session_id();
        // What was under way at the end of a connection may have been carried out.
        client.create("/a", "data", CreateMode::Persistent).await.ok();
        server.until(|| client.session_id().is_some_and(|id| Some(id) != before)).await;
    }
    let created = within("a node", SOON, client.create("/a-", "data", CreateMode::EphemeralSequential)).await;
    assert_eq!(created.expect("created"), "/a-0000000000");
    let transaction = client.transaction().create("/d", "x", CreateMode::Persistent).set_data("/d", "y", None);
    within("a transaction", SOON, transaction.commit()).await.expect("committed");
    assert_eq!(server.get("/d").as_deref(), Some(&b"y"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_stat_cannot_be_read_is_not_reported_as_one_that_was_not_sent() {
    let (server, client) = keeper(Dialect::Keeper).await;
    let guard = within("what the servers lack is learnt", T, mutex(&client).acquire()).await.expect("held");
    guard.release().await.expect("released");
    server.lose_next_reply(&client, Operation::Exists, Loss::NotApplied);
    let error = within("an answer", T, client.create("/x", "", CreateMode::Persistent)).await.expect_err("lost");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(server.get("/x").is_some());
}

/// A follower does not tell its leader of a session that only reads, and what it hears just before it is cut off is
/// lost.
#[tokio::test(start_paused = true)]
async fn no_hold_outlasts_its_session_because_of_reads() {
    let (tick, timeout) = (Duration::from_millis(800), Duration::from_secs(9));
    let server = TestingServer::builder().dialect(Dialect::Keeper26).servers(3).tick_time(tick).start();
    let builder = Client::builder_for_testing(&server).session_timeout(timeout).tick_time(tick);
    let builder = builder.heartbeat(Heartbeat::Quorum).error_policy(ErrorPolicy::Session);
    let client = builder.connect().await.expect("a client");
    let guard = within("the lock", T, mutex(&client).acquire()).await.expect("held");
    let reads = async {
        loop {
            client.exists("/app").await.ok();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let heartbeats = || server.count(&client, Operation::Multi);
    let ends = async {
        tokio::time::sleep(T).await;
        let before = heartbeats();
        server.until(|| heartbeats() > before).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        let connected = server.sessions().into_iter().find(|session| Some(session.id) == client.session_id());
        server.cut_off(connected.and_then(|session| session.server).expect("connected"), T);
        server.black_hole(&client);
        server.until(|| server.stat(guard.node_path()).is_none()).await;
        assert!(!guard.is_held(), "its session is over");
    };
    tokio::select! {
        () = reads => {}
        () = ends => {}
    }
}

/// Reads do not extend its session there, so it is pinged all the same.
#[tokio::test(start_paused = true)]
async fn a_client_that_only_reads_keeps_its_session() {
    let server = TestingServer::builder().dialect(Dialect::Keeper26).servers(3).start();
    let client = Client::builder_for_testing(&server).session_timeout(T).connect().await.expect("a client");
    let session = client.session_id();
    for _ in 0..40 {
        client.exists("/").await.expect("an answer");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(client.session_id(), session);
    assert_eq!(server.sessions().len(), 1);
}
