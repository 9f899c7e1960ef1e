//! The cost of many waiters while nothing happens.

use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{acquired, line_has, make_directory, mutex};
use crate::fixture::T;

/// The ensemble's leader answers each of them, so a line must not cost one a session.
#[tokio::test(start_paused = true)]
async fn of_a_thousand_waiting_sessions_only_the_first_ones_send_heartbeats() {
    const SESSIONS: usize = 1_000;
    const ROUNDS: u32 = 12;
    let server = TestingServer::start();
    make_directory(&server);
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(Client::builder_for_testing(&server).session_timeout(T).connect().await.expect("a client"));
    }
    let held = acquired(&mutex(&clients[0])).await;
    let mut waiting = Vec::new();
    for (before, client) in clients.iter().enumerate().skip(1) {
        let lock = mutex(client);
        waiting.push(server.spawn(client, async move { lock.acquire().await }));
        line_has(&server, before + 1).await;
    }
    // The first requests of each have been answered.
    tokio::time::sleep(T).await;
    let counts = || clients.iter().map(Client::request_counts);
    let sent = || counts().map(|counts| counts.heartbeats + counts.syncs).sum::<u64>();
    let before = sent();
    tokio::time::sleep(T / 6 * ROUNDS + Duration::from_millis(1)).await;
    let sent = sent() - before;
    assert!(sent <= u64::from(3 * (ROUNDS + 1)), "{sent} heartbeats in {ROUNDS} sixths of the session timeout");
    assert!(sent > 0 && held.is_held(), "its holder keeps proving it");
}
