//! The same random requests to two ensembles, compared step by step.
//!
//! Each step is awaited before the next, so that both sides are at the same point. Numbers of transactions differ
//! between the two; what is compared is that they grow alike. Times are not compared.

mod compare;
mod compared;
#[cfg(feature = "integration")]
mod other_client;
mod steps;

#[cfg(feature = "integration")]
use std::time::Duration;

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
    /// The watches that are armed; the same on both sides.
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

    /// Waits until every event of the writes so far has arrived: it comes before the reply to a later request.
    async fn settle(&self) {
        let replies = self.sessions.iter().map(|session| session.exists("/"));
        for reply in soon(join_all(replies)).await {
            reply.expect("the root exists");
        }
    }

    /// Takes the watches whose event has come.
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
        memory(quiet).for_group(0, timeout, usize::MAX, Clock::Tokio(tokio::time::Instant::now())),
        memory(slow).for_group(0, timeout, usize::MAX, Clock::Tokio(tokio::time::Instant::now())),
    );
    let outcome = run(1, steps, "/differential", quiet, slow).await;
    assert_worthwhile(&outcome, steps);
}

/// Returns the seed and the number of steps, from the environment or by default.
#[cfg(feature = "integration")]
fn seed_and_steps() -> (u64, usize) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = number("SEED").unwrap_or_else(|| now.map_or(0, |now| now.as_secs()));
    (seed, number("STEPS").map_or(10_000, |steps| steps as usize))
}

/// Starts a server that removes no containers: it does so at moments that no step can wait for.
#[cfg(feature = "integration")]
async fn server() -> crate::support::ZooKeeper {
    let builder = crate::support::ZooKeeper::builder();
    builder.jvm_flag("-Dznode.container.checkIntervalMs=3600000").start().await
}

#[cfg(feature = "integration")]
#[tokio::test]
async fn memory_and_a_server_agree() {
    let (seed, steps) = seed_and_steps();
    let server = server().await;
    let options = Options { latency: 0..=0, commit: 0..=0, container_check: 1 << 40, ..Options::default() };
    let begun = std::time::Instant::now();
    let memory =
        memory(options).for_group(0, super::scene::TIMEOUT, usize::MAX, Clock::Tokio(tokio::time::Instant::now()));
    let outcome = run(seed, steps, "/differential", memory, super::scene::real(&server.connect_string())).await;
    println!("took {:?}", begun.elapsed());
    assert_worthwhile(&outcome, steps);
}

/// The engine and an independent client read the same from servers of the same kind. What both the engine and the
/// ensemble in memory get wrong shows only here.
#[cfg(feature = "integration")]
#[tokio::test]
async fn engine_and_another_client_agree() {
    use self::other_client::OtherClient;
    let (seed, steps) = seed_and_steps();
    let (ours, theirs) = futures::future::join(server(), server()).await;
    let begun = std::time::Instant::now();
    let other = OtherClient::new(theirs.connect_string(), super::scene::TIMEOUT);
    let outcome = run(seed, steps, "/differential", super::scene::real(&ours.connect_string()), other).await;
    println!("took {:?}", begun.elapsed());
    assert_worthwhile(&outcome, steps);
}

/// The servers in memory are judged by a client that shares no code with them.
#[cfg(feature = "integration")]
#[tokio::test]
async fn another_client_finds_memory_and_a_server_alike() {
    use self::other_client::OtherClient;
    let (seed, steps) = seed_and_steps();
    let (theirs, ours) = (server().await, crate::testing::TestingServer::builder());
    let ours = ours.latency(Duration::ZERO..=Duration::ZERO).container_check_interval(Duration::MAX).start();
    let listening = ours.listen("127.0.0.1:0").expect("a free port");
    let begun = std::time::Instant::now();
    let client = |servers| OtherClient::new(servers, super::scene::TIMEOUT);
    let outcome =
        run(seed, steps, "/differential", client(listening.connect_string()), client(theirs.connect_string())).await;
    println!("took {:?}", begun.elapsed());
    assert_worthwhile(&outcome, steps);
}
