//! The log lines of sessions: what a lost one costs, and that no line says anything twice.

use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::leader_selector::{LeaderSelector, Leadership};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::persistent_node::PersistentNode;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ConnectionState};

use crate::fixture::log::Log;
use crate::fixture::{SOON, T, within};

/// The value of a field in a line.
fn value<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {field}="))?;
    rest.split(' ').next()
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_is_a_warning_of_what_it_cost_and_a_closed_one_is_none() {
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = Client::builder_for_testing(&server).session_timeout(T).connect().await.expect("a client");
    let mutexes = ["/a", "/b"].map(|path| InterProcessMutex::new(&client, path).expect("a path"));
    let _guards = [mutexes[0].acquire().await.expect("held"), mutexes[1].acquire().await.expect("held")];
    for (ordinal, reason) in ["Expired", "GivenUp"].into_iter().enumerate() {
        let session = client.session_id();
        server.refuse(&client);
        if reason == "Expired" {
            server.disconnect(&client);
            tokio::time::sleep(SOON * 2).await;
            server.expire_session(&client);
            server.heal();
        } else {
            server.disconnect(&client);
            tokio::time::sleep(T * 2).await;
            server.heal();
        }
        within("another session", T, server.until(|| client.session_id().is_some_and(|id| Some(id) != session))).await;
        let ended = log.lines("event=\"session_ended\"");
        let line = &ended[ordinal];
        assert!(line.contains("WARN"), "{line}");
        assert_eq!(value(line, "reason"), Some(reason));
        // The guards are those of the first session.
        let places = if ordinal == 0 { "2" } else { "0" };
        assert_eq!(value(line, "places"), Some(places), "{line}");
        assert_eq!(value(line, "users"), Some("2"), "{line}");
        let out = value(line, "out").expect("for how long");
        assert!(out.contains('s') && !out.contains("Some"), "{line}");
        let opened = &log.lines("event=\"session_opened\"")[ordinal + 1];
        assert!(value(opened, "out").is_some(), "{opened}");
    }
    assert_eq!(value(&log.lines("event=\"session_opened\"")[0], "out"), None, "nothing was out before the first one");
    client.close().await.expect("closed");
    let ended = log.lines("event=\"session_ended\"");
    assert!(ended.len() == 3 && ended[2].contains("INFO"), "{ended:#?}");
}

#[tokio::test(start_paused = true)]
async fn no_line_says_a_field_twice() {
    let (log, subscriber) = Log::new(LevelFilter::DEBUG);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = Client::builder_for_testing(&server).session_timeout(T).connect().await.expect("a client");
    let latch = LeaderLatch::builder(&client, "/latch").id("one").start().expect("started");
    let waits_for_the_end = |leadership: Leadership| async move {
        leadership.lost().await;
    };
    let selector = LeaderSelector::builder(&client, "/job").id("two").start(waits_for_the_end).expect("started");
    let _node = PersistentNode::builder(&client, "/node").start().expect("started");
    let mutex = InterProcessMutex::new(&client, "/lock").expect("a path");
    within("it leads", T, latch.wait_for_leadership()).await.expect("it leads");
    let guard = mutex.acquire().await.expect("held");
    // It waits for itself, and an operator deletes its nodes.
    let waiting = mutex.acquire_timeout(Duration::from_secs(20));
    let deleting = async {
        tokio::time::sleep(Duration::from_secs(12)).await;
        for dir in ["/lock", "/latch", "/job"] {
            for name in server.children(dir) {
                server.delete_by_hand(&format!("{dir}/{name}")).expect("it was there");
            }
        }
    };
    drop(tokio::join!(waiting, deleting).0.expect("an answer"));
    drop(guard);
    server.expire_session(&client);
    server.until(|| client.connection_state() == ConnectionState::Reconnected).await;
    tokio::time::sleep(T).await;
    selector.close().await.expect("closed");
    latch.close().await.expect("closed");
    client.close().await.expect("closed");
    for event in ["leading", "leadership_ended", "session_ended", "node_deleted", "node_created"] {
        assert!(!log.lines(&format!("event=\"{event}\"")).is_empty(), "{event}");
    }
    for line in log.lines("") {
        for field in ["path", "id", "token", "session", "state"] {
            let times = line.matches(&format!(" {field}=")).count() + line.matches(&format!("{{{field}=")).count();
            assert!(times <= 1, "{field} is there {times} times: {line}");
        }
    }
}

/// No server listens there.
#[tokio::test]
async fn the_causes_of_an_outage_are_quoted() {
    let (log, subscriber) = Log::new(LevelFilter::WARN);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port").port();
    let servers = format!("127.0.0.1:{port}");
    let connecting = Client::builder(&servers).connection_timeout(SOON).connect();
    connecting.await.expect_err("no server");
    let began = log.lines("event=\"outage_began\"");
    assert!(began[0].contains(&format!("causes=\"{servers}: connection refused\"")), "{began:#?}");
}
