//! The log lines about session timeouts that servers grant, and the wait for a confirmation.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures::StreamExt;
use tracing::subscriber::{DefaultGuard, NoSubscriber};

use super::{Keepalive, Phase};
use crate::client::session::Condition;
use crate::engine;
use crate::testing::TestingServer;
use crate::{Client, ConnectionState};

/// The lines that are logged on this thread while it exists. The tests of the library cannot use the log that `tests/`
/// shares.
struct Log {
    bytes: Arc<Mutex<Vec<u8>>>,
    _capturing: DefaultGuard,
}

#[derive(Clone)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn capture() -> Log {
        // With a single subscriber, tracing asks only the thread that reaches a log statement first.
        static OTHER: LazyLock<tracing::Dispatch> = LazyLock::new(|| tracing::Dispatch::new(NoSubscriber::default()));
        LazyLock::force(&OTHER);
        let bytes = Arc::new(Mutex::default());
        let sink = Sink(Arc::clone(&bytes));
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || sink.clone()).finish();
        Log { bytes, _capturing: tracing::subscriber::set_default(subscriber) }
    }

    /// Returns the lines so far that contain `text`.
    fn lines(&self, text: &str) -> Vec<String> {
        let log = String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap();
        log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn connect(server: &TestingServer) -> Client {
    let builder = Client::builder_for_testing(server).session_timeout(secs(10)).min_session_timeout(secs(8));
    builder.connect().await.expect("a session")
}

/// Cuts the connection of `client` and waits until it uses the next one.
async fn reconnect(server: &TestingServer, client: &Client) {
    let mut states = client.connection_states().skip(1);
    server.disconnect(client);
    for expected in [ConnectionState::Suspended, ConnectionState::Reconnected] {
        assert_eq!(states.next().await, Some(Ok(expected)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_below_the_smallest_that_the_client_was_told_is_one_warning_for_each_session_and_grant() {
    let log = Log::capture();
    let server = TestingServer::start();
    let warnings = || log.lines("less than min_session_timeout");
    let client = connect(&server).await;
    for _ in 0..3 {
        reconnect(&server, &client).await;
    }
    assert_eq!(warnings(), [""; 0], "ten seconds were granted");

    server.grant_timeouts(secs(6)..=secs(6));
    for _ in 0..3 {
        reconnect(&server, &client).await;
    }
    let warned = warnings();
    let session = format!("{:#x}", client.session_id().expect("a session"));
    assert_eq!(warned.len(), 1, "{warned:#?}");
    for part in [" WARN ", &session, "timeout=6s", "min_session_timeout=8s"] {
        assert!(warned[0].contains(part), "{part}: {}", warned[0]);
    }

    server.grant_timeouts(secs(5)..=secs(5));
    reconnect(&server, &client).await;
    server.grant_timeouts(secs(7)..=secs(7));
    reconnect(&server, &client).await;
    let warned = warnings();
    assert_eq!(warned.len(), 2, "a smaller grant is a new warning, a larger one is not: {warned:#?}");
    assert!(warned[1].contains("timeout=5s"), "{}", warned[1]);

    let before = client.session_id();
    server.expire_session(&client);
    server.until(|| client.session_id().is_some_and(|now| Some(now) != before)).await;
    server.until(|| client.connection_state() == ConnectionState::Reconnected).await;
    let warned = warnings();
    assert_eq!(warned.len(), 3, "the next session: {warned:#?}");
    assert!(warned[2].contains("timeout=7s"), "{}", warned[2]);
}

/// An overloaded server refuses a heartbeat like this: the connection stays.
#[tokio::test(start_paused = true)]
async fn a_confirmation_that_is_refused_is_asked_for_again_also_without_a_user() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    let session = client.core().connected_session().await.expect("a session");
    let mut keepalive = Keepalive::new(client.core(), &session, futures::stream::pending().boxed());
    keepalive.await_confirmation();
    keepalive.answers.clear();
    keepalive.note_answer(Err(engine::Error::Throttled));
    let due = keepalive.next_wake(client.core().clock.now()).expect("another one");
    assert!(keepalive.answers.is_empty());
    keepalive.act(due);
    assert_eq!((keepalive.phase, keepalive.answers.len()), (Phase::Unconfirmed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_before_the_confirmation_leaves_that_to_be_waited_for() {
    let server = TestingServer::start();
    let client = connect(&server).await;
    let session = client.core().connected_session().await.expect("a session");
    let mut keepalive = Keepalive::new(client.core(), &session, futures::stream::pending().boxed());
    let _in_use = client.core().keep_alive();
    keepalive.act(client.core().clock.now());
    assert!(keepalive.must_report_lapse);
    keepalive.await_confirmation();
    let over = session.lease().deadline();
    keepalive.act(over);
    assert_eq!(keepalive.phase, Phase::Unconfirmed);
    assert_eq!(session.condition(), Condition::Suspended);
}

/// Between the answer to the first heartbeat and the second one, a tick later, the regular ones go on.
#[tokio::test(start_paused = true)]
async fn the_second_heartbeat_after_a_pause_puts_off_no_other() {
    let server = TestingServer::start();
    for (timeout, tick) in [(secs(40), secs(2)), (secs(10), secs(2)), (secs(4), secs(1))] {
        let client = Client::builder_for_testing(&server).session_timeout(timeout).connect().await.expect("a session");
        let session = client.core().connected_session().await.expect("a session");
        let mut keepalive = Keepalive::new(client.core(), &session, futures::stream::pending().boxed());
        let _in_use = client.core().keep_alive();
        let first = client.core().clock.now();
        keepalive.act(first);
        keepalive.note_answer(Ok(()));
        let (regular, second) = (timeout / 6, tick + Duration::from_millis(1));
        let due = if regular < second { [regular, second] } else { [second, second + regular] };
        for (sent, due) in (1..).zip(due) {
            assert_eq!((keepalive.answers.len(), keepalive.next_wake(first)), (sent, Some(first + due)), "{timeout:?}");
            keepalive.act(first + due);
        }
    }
}
