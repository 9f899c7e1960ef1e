//! Sends the same random requests to two ensembles, and compares the answers step by step.
//!
//! Each step is awaited before the next, so that both sides are at the same point. Transaction ids differ between the
//! two; they must correspond one to one, in the same order. Times are not compared.

mod compare;
mod compared;
#[cfg(feature = "integration")]
mod other_client;
#[cfg(feature = "integration")]
mod real;
mod steps;

use futures::future::join_all;

use self::compare::{Likeness, Seen};
use self::compared::{ComparedClient, ComparedSession};
use self::steps::{Generator, Step};
use super::scene::{already, memory, soon};
use crate::engine::Watch;
use crate::testing::ensemble::Options;
use crate::util::clock::Clock;
use crate::util::znode::{Acl, CreateMode};

const SESSIONS: usize = 3;

/// One of the two ensembles, with the sessions of the run.
struct Side {
    client: Box<dyn ComparedClient>,
    sessions: Vec<Box<dyn ComparedSession>>,
    /// The armed watches, the same on both sides.
    watches: Vec<Watch>,
}

impl Side {
    async fn new(client: Box<dyn ComparedClient>, root: &str) -> Side {
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(soon(client.open()).await);
        }
        let created = sessions[0].create(root, b"", CreateMode::Persistent, &[Acl::anyone_all()]);
        soon(created).await.expect("the node of the run");
        Side { client, sessions, watches: Vec::new() }
    }

    async fn take(&mut self, step: &Step) -> Seen {
        if let Step::Reopen { session } = step {
            soon(self.sessions[*session].close()).await;
            self.sessions[*session] = soon(self.client.open()).await;
            return Seen::Nothing;
        }
        if let Step::Unwatch { watch } = step {
            self.watches.remove(*watch);
            return Seen::Nothing;
        }
        let (seen, watch) = soon(step.take(&self.sessions)).await;
        self.watches.extend(watch);
        seen
    }

    /// Waits until every event of the writes so far has arrived: events precede the replies to later requests.
    async fn settle(&self) {
        let replies = self.sessions.iter().map(|session| session.exists("/"));
        for reply in soon(join_all(replies)).await {
            reply.expect("the root exists");
        }
    }

    /// Returns the event of each watch, if it has arrived, and removes the watches that have fired.
    fn events(&mut self) -> Vec<Option<crate::engine::Event>> {
        let events: Vec<_> = self.watches.iter_mut().map(already).collect();
        let mut spent = events.iter().map(Option::is_some);
        self.watches.retain(|_| !spent.next().unwrap_or(false));
        events
    }

    fn ids(&self) -> Vec<i64> {
        self.sessions.iter().map(|session| session.id()).collect()
    }
}

struct Outcome {
    refused: usize,
    events: usize,
}

async fn run(
    seed: u64,
    steps: usize,
    root: &str,
    left: impl ComparedClient + 'static,
    right: impl ComparedClient + 'static,
) -> Outcome {
    println!("differential run with seed {seed}");
    let mut left = Side::new(Box::new(left), root).await;
    let mut right = Side::new(Box::new(right), root).await;
    let mut likeness = Likeness::default();
    likeness.pair_sessions(&left.ids(), &right.ids());
    let mut generator = Generator::new(seed, root, SESSIONS);
    let mut outcome = Outcome { refused: 0, events: 0 };
    for number in 0..steps {
        let step = generator.step(left.watches.len());
        let (here, there) = (left.take(&step).await, right.take(&step).await);
        let context = || format!("seed {seed}, step {number}: {step:?}\n here {here:?}\nthere {there:?}");
        likeness.pair_sessions(&left.ids(), &right.ids());
        if let Err(difference) = likeness.compare(&here, &there) {
            panic!("{difference} at {}", context());
        }
        outcome.refused += usize::from(here.is_refusal());
        if step.unsettles() {
            left.settle().await;
            right.settle().await;
        }
        let (here, there) = (left.events(), right.events());
        assert_eq!(here, there, "events of the watches differ at {}", context());
        outcome.events += here.iter().flatten().count();
    }
    for session in left.sessions.iter().chain(&right.sessions) {
        soon(session.close()).await;
    }
    outcome
}

fn assert_worthwhile(outcome: &Outcome, steps: usize) {
    let Outcome { refused, events } = *outcome;
    println!("{steps} steps: {refused} refusals, {events} events");
    assert!(refused > steps / 10 && refused < steps * 3 / 4, "{refused} refusals");
    assert!(events > steps / 50, "{events} events");
}

/// Delays and lags change nothing for a caller that waits for each reply.
#[tokio::test(start_paused = true)]
async fn memory_and_slow_memory_agree() {
    let steps = 5_000;
    let timeout = super::scene::TIMEOUT;
    let quiet = Options { latency: 0..=0, commit: 0..=0, container_check: 1 << 40, ..Options::default() };
    let slow = Options { seed: 7, servers: 1, latency: 0..=9, commit: 0..=3, ..quiet.clone() };
    let (quiet, slow) = (
        memory(quiet).for_group(0, timeout, usize::MAX, Clock::tokio(tokio::time::Instant::now())),
        memory(slow).for_group(0, timeout, usize::MAX, Clock::tokio(tokio::time::Instant::now())),
    );
    let outcome = run(1, steps, "/differential", quiet, slow).await;
    assert_worthwhile(&outcome, steps);
}
