//! `LeaderLatch`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};

use super::{Column, connect};
use crate::line;

/// The line, the leader first.
type Line = VecDeque<(Client, LeaderLatch)>;

async fn enter(client: &Client, dir: &str) -> LeaderLatch {
    let latch = LeaderLatch::builder(client, dir).start().expect("a latch");
    let mut states = latch.state();
    let entered = states.wait_for(|state| matches!(state.status(), LatchStatus::Waiting | LatchStatus::Leading));
    entered.await.expect("the latch is open");
    latch
}

pub(crate) fn fail_over(addr: &str, dir: &str, participants: usize, cycles: u64) -> Column {
    let line = async {
        let mut line = Line::new();
        for _ in 0..participants {
            let client = connect(addr).await;
            let latch = enter(&client, dir).await;
            line.push_back((client, latch));
        }
        Arc::new(Mutex::new(line))
    };
    let dir = dir.to_owned();
    Column::on_tokio(line, move |line| {
        let dir = dir.clone();
        async move {
            let mut line = line.lock_owned().await;
            let mut times = Vec::new();
            for _ in 0..cycles {
                times.push(fail_over_once(&mut line, &dir).await);
            }
            times
        }
    })
}

/// Closes the leader. Returns how long it takes until the next one leads.
async fn fail_over_once(line: &mut Line, dir: &str) -> Duration {
    let (client, leader) = line.pop_front().expect("a leader");
    leader.wait_for_leadership().await.expect("it leads");
    let (_, next) = line.front().expect("a waiter");
    tokio::time::sleep(line::SETTLE).await;
    let begun = Instant::now();
    let (closed, took) = tokio::join!(leader.close(), async {
        next.wait_for_leadership().await.expect("it leads");
        begun.elapsed()
    });
    closed.expect("closed");
    let latch = enter(&client, dir).await;
    line.push_back((client, latch));
    took
}
