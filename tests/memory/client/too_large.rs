//! A request that the servers do not read: they close the connection, as often as it is sent.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::testing::{RecordKind, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::fixture::{SOON, within};

const PATH: &str = "/a";
/// Of the servers; the client believes in a megabyte.
const MAX_BUFFER: usize = 64 * 1024;

/// A server that reads no more than that, a client, and a node.
async fn setup() -> (TestingServer, Client) {
    let server = TestingServer::start();
    server.create_by_hand(PATH, "", CreateMode::Persistent).expect("a new node");
    server.max_buffer(MAX_BUFFER);
    let client = server.client().await.expect("a client");
    (server, client)
}

fn losses(server: &TestingServer) -> usize {
    server.records().iter().filter(|record| record.what == RecordKind::Disconnected).count()
}

async fn set(client: &Client, bytes: usize) -> Result<(), ErrorKind> {
    let set = within("it ends", SOON * 5, client.set(PATH, vec![1; bytes], None)).await;
    set.map(drop).map_err(|error| error.kind())
}

#[tokio::test(start_paused = true)]
async fn after_the_second_connection_it_is_refused_and_all_else_goes_on() {
    let (server, client) = setup().await;
    set(&client, 60_000).await.expect("set");
    for _ in 0..2 {
        assert_eq!(set(&client, 100_000).await, Err(ErrorKind::OutcomeUnknown));
    }
    let error = client.set(PATH, vec![1; 100_000], None).await.expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    for part in ["jute.maxbuffer", "1048575 bytes", "one of 60022 bytes", "ClientBuilder::max_request_bytes"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for _ in 0..100 {
        assert_eq!(set(&client, 100_001).await, Err(ErrorKind::InvalidArgument));
        set(&client, 60_000).await.expect("set");
    }
    assert_eq!(losses(&server), 2);
}

/// Also in the next session: what is known is known of the servers.
#[tokio::test(start_paused = true)]
async fn it_is_tried_again_now_and_then_and_is_accepted_once_it_is_answered() {
    let (server, client) = setup().await;
    for _ in 0..2 {
        assert_eq!(set(&client, 100_000).await, Err(ErrorKind::OutcomeUnknown));
    }
    let session = client.session_id();
    server.expire_session(&client);
    server.until(|| client.session_id().is_some_and(|now| Some(now) != session)).await;
    let before = losses(&server);
    for _ in 0..600 {
        assert!(set(&client, 100_000).await.is_err());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(losses(&server) - before, 3, "after 1, 3 and 7 minutes");
    server.max_buffer(1 << 20);
    assert_eq!(set(&client, 100_000).await, Err(ErrorKind::InvalidArgument));
    tokio::time::sleep(Duration::from_secs(480)).await;
    for _ in 0..10 {
        set(&client, 100_000).await.expect("set");
    }
}

/// However often a longer one is asked for, which they never read.
#[tokio::test(start_paused = true)]
async fn one_that_the_servers_read_again_is_let_through_before_one_that_they_do_not() {
    let (server, client) = setup().await;
    for _ in 0..2 {
        assert_eq!(set(&client, 100_000).await, Err(ErrorKind::OutcomeUnknown));
    }
    server.max_buffer(200_000);
    let begin = Instant::now();
    while set(&client, 100_000).await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(set(&client, 900_000).await, Err(ErrorKind::InvalidArgument));
    }
    assert!(begin.elapsed() <= Duration::from_secs(61), "it has the first turn");
}

#[tokio::test(start_paused = true)]
async fn an_outage_refuses_no_ordinary_request() {
    let (server, client) = setup().await;
    for _ in 0..10 {
        let path = format!("{PATH}/{}", "x".repeat(500));
        let (set, ()) = tokio::join!(client.create(&path, "", CreateMode::Persistent), async {
            tokio::task::yield_now().await;
            server.disconnect(&client);
        });
        let kind = set.err().map(|error| error.kind());
        assert!(kind.is_none_or(|kind| kind != ErrorKind::InvalidArgument), "{kind:?}");
    }
}
