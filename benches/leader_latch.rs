//! Failover of a LeaderLatch among 100 participants against the raw client doing the same requests, on a real server.

#[path = "side_by_side/mod.rs"]
mod side_by_side;
#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use zookeeper as zk;
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::LeaderLatch;

use self::side_by_side::{Pair, RawLine, RawLock, Stage};

const PARTICIPANTS: usize = 100;
const SESSION: Duration = Duration::from_secs(30);

/// The line of latches, the leader first.
struct Latches {
    client: Client,
    path: String,
    line: VecDeque<LeaderLatch>,
}

impl Latches {
    async fn enter(&mut self) {
        let latch = LeaderLatch::builder(&self.client, &self.path).start().expect("a latch");
        while latch.our_path().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.line.push_back(latch);
    }

    /// The leader closes; how long it takes until the next one leads.
    async fn fail_over(&mut self) -> Duration {
        let leader = self.line.pop_front().expect("a leader");
        leader.wait_for_leadership().await.expect("it leads");
        let next = self.line.front().expect("a waiter");
        let begun = Instant::now();
        let (closed, led) = tokio::join!(leader.close(), next.wait_for_leadership());
        let took = begun.elapsed();
        closed.expect("closed");
        led.expect("leads");
        self.enter().await;
        // Its watches are being armed.
        tokio::time::sleep(Duration::from_millis(5)).await;
        took
    }

    async fn fail_overs(&mut self, count: u64) -> Duration {
        let mut took = Duration::ZERO;
        for _ in 0..count {
            took += self.fail_over().await;
        }
        took
    }
}

/// The same with nodes alone.
struct Nodes {
    lock: RawLock,
    line: VecDeque<RawLine>,
}

impl Nodes {
    async fn fail_over(&mut self) -> Duration {
        let leader = self.line.pop_front().expect("a leader");
        let next = self.line.front_mut().expect("a waiter");
        let begun = Instant::now();
        tokio::join!(self.lock.leave(leader), self.lock.wait(next));
        let took = begun.elapsed();
        let place = self.lock.enter().await;
        self.line.push_back(place);
        tokio::time::sleep(Duration::from_millis(5)).await;
        took
    }

    async fn fail_overs(&mut self, count: u64) -> Duration {
        let mut took = Duration::ZERO;
        for _ in 0..count {
            took += self.fail_over().await;
        }
        took
    }
}

fn benches(criterion: &mut Criterion) {
    let stage = Stage::new();
    let (path, raw_path) = stage.paths("failover");
    let (mut latches, mut nodes) = stage.block_on(async {
        let client =
            Client::builder(stage.connect_string()).session_timeout(SESSION).connect().await.expect("a client");
        let mut latches = Latches { client, path, line: VecDeque::new() };
        let raw = zk::Client::connector().with_session_timeout(SESSION).connect(&stage.connect_string()).await;
        let lock = RawLock::on(raw.expect("a session"), &raw_path, "latch-").await;
        let mut nodes = Nodes { lock, line: VecDeque::new() };
        for _ in 0..PARTICIPANTS {
            latches.enter().await;
            let place = nodes.lock.enter().await;
            nodes.line.push_back(place);
        }
        (latches, nodes)
    });
    Pair::new("latch, failover among 100").measure(
        criterion,
        |iterations| stage.block_on(nodes.fail_overs(iterations)),
        |iterations| stage.block_on(latches.fail_overs(iterations)),
    );
}

criterion_group! {
    name = leader_latch;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(4)).without_plots();
    targets = benches
}
criterion_main!(leader_latch);
