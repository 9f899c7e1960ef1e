//! The log lines of a session timeout that the servers raise or lower.

use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ConnectionState};

use crate::fixture::log::Log;

const WARNING: &str = "granted another session timeout";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn connected(server: &TestingServer, timeout: Duration) -> Client {
    Client::builder_for_testing(server).session_timeout(timeout).connect().await.expect("a client")
}

/// Waits until the client has another connection.
async fn reconnects(server: &TestingServer, client: &Client) {
    server.disconnect(client);
    server.until(|| client.connection_state() == ConnectionState::Suspended).await;
    server.until(|| client.connection_state() == ConnectionState::Reconnected).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_timeout_that_the_servers_change_is_one_warning_a_client() {
    let server = TestingServer::start();
    for (asked, granted, figures) in [(60, 40, "asked=60s granted=40s"), (1, 4, "asked=1s granted=4s")] {
        let (log, subscriber) = Log::new(LevelFilter::WARN);
        let _logging = tracing::dispatcher::set_default(&subscriber);
        let client = connected(&server, secs(asked)).await;
        assert_eq!(client.session_timeout(), Some(secs(granted)));
        server.until(|| !log.lines(WARNING).is_empty()).await;
        let [warning] = &log.lines(WARNING)[..] else { panic!("one warning: {:#?}", log.lines("")) };
        for part in ["WARN", figures, "minSessionTimeout", "maxSessionTimeout"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        // Neither a connection nor a session tells it once more.
        reconnects(&server, &client).await;
        let session = client.session_id();
        server.expire_session(&client);
        server.until(|| client.session_id().is_some_and(|id| Some(id) != session)).await;
        tokio::time::sleep(secs(1)).await;
        assert_eq!(log.lines(WARNING).len(), 1, "{:#?}", log.lines(""));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_timeout_as_asked_for_is_no_warning_until_a_reconnect_grants_another() {
    let (log, subscriber) = Log::new(LevelFilter::WARN);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = connected(&server, Duration::from_micros(10_000_500)).await;
    reconnects(&server, &client).await;
    assert!(log.lines(WARNING).is_empty(), "{:#?}", log.lines(""));
    server.grant_timeouts(secs(12)..=secs(20));
    reconnects(&server, &client).await;
    assert_eq!(log.lines(WARNING).len(), 1, "{:#?}", log.lines(""));
    assert!(log.lines(WARNING)[0].contains("granted=12s"), "{:#?}", log.lines(WARNING));
}
