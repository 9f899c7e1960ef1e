//! Participants with priorities.

use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{LeaderLatch, LeaderLatchBuilder};
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{PATH, can_be_asked, latch, leads, waits};

pub(super) fn builder(client: &Client, id: &str, priority: u32) -> LeaderLatchBuilder {
    LeaderLatch::builder(client, PATH).id(id).priority(priority)
}

/// A participant that waits and cannot be asked to resign.
pub(super) async fn ranked(client: &Client, id: &str, priority: u32) -> LeaderLatch {
    let latch = builder(client, id, priority).start().expect("the latch starts");
    waits(&latch).await;
    latch
}

/// A participant that can be asked to resign, and leads for `grace` after that.
pub(super) async fn revocable(
    server: &TestingServer,
    client: &Client,
    (id, priority): (&str, u32),
    grace: Duration,
) -> LeaderLatch {
    let latch = builder(client, id, priority).revocable(grace).start().expect("the latch starts");
    can_be_asked(server, &latch).await;
    latch
}

/// A line of participants that can be asked to resign and have no grace period, one for each client.
pub(super) async fn revocable_line(
    server: &TestingServer,
    clients: &[Client],
    line: &[(&str, u32)],
) -> Vec<LeaderLatch> {
    let mut latches = Vec::new();
    for (client, participant) in clients.iter().zip(line) {
        latches.push(revocable(server, client, *participant, Duration::ZERO).await);
    }
    latches
}

/// A leader that cannot be asked to resign.
pub(super) async fn leader(client: &Client) -> LeaderLatch {
    let leader = latch(client, "leader");
    leads(&leader).await;
    leader
}

/// Waits until the second of the line has this id.
pub(super) async fn line_becomes_next(server: &TestingServer, id: &str) {
    let is_next = || {
        let mut names = server.children(PATH);
        names.sort_by_key(|name| name[name.len() - 10..].to_owned());
        names.get(1).and_then(|name| server.get(&format!("{PATH}/{name}"))).is_some_and(|data| data == id.as_bytes())
    };
    server.until(is_next).await;
}
