//! Runs with real servers on one side or on both.

use std::time::Duration;

use super::other_client::OtherClient;
use super::{assert_worthwhile, run};
use crate::engine::contract::scene::{TIMEOUT, memory, real};
use crate::testing::ensemble::Options;
use crate::util::clock::Clock;

/// Returns the seed and the number of steps, from the environment or by default.
fn seed_and_steps() -> (u64, usize) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = number("SEED").unwrap_or_else(|| now.map_or(0, |now| now.as_secs()));
    (seed, number("STEPS").map_or(10_000, |steps| steps as usize))
}

/// Starts a server that never removes containers, because no step could wait for the removal.
async fn server() -> crate::support::ZooKeeper {
    let builder = crate::support::ZooKeeper::builder();
    builder.jvm_flag("-Dznode.container.checkIntervalMs=3600000").start().await
}

#[tokio::test]
async fn memory_and_a_server_agree() {
    let (seed, steps) = seed_and_steps();
    let server = server().await;
    let options = Options { latency: 0..=0, commit: 0..=0, container_check: 1 << 40, ..Options::default() };
    let begun = std::time::Instant::now();
    let memory = memory(options).for_group(0, TIMEOUT, usize::MAX, Clock::tokio(tokio::time::Instant::now()));
    let outcome = run(seed, steps, "/differential", memory, real(&server.connect_string())).await;
    println!("took {:?}", begun.elapsed());
    assert_worthwhile(&outcome, steps);
}

/// The engine and an independent client read the same from servers of the same kind. Only this test finds mistakes that
/// the engine and the ensemble in memory share.
#[tokio::test]
async fn engine_and_another_client_agree() {
    let (seed, steps) = seed_and_steps();
    let (ours, theirs) = futures::future::join(server(), server()).await;
    let begun = std::time::Instant::now();
    let other = OtherClient::new(theirs.connect_string(), TIMEOUT);
    let outcome = run(seed, steps, "/differential", real(&ours.connect_string()), other).await;
    println!("took {:?}", begun.elapsed());
    assert_worthwhile(&outcome, steps);
}

/// Checks the servers in memory with a client that shares no code with them.
#[tokio::test]
async fn another_client_finds_memory_and_a_server_alike() {
    let (seed, steps) = seed_and_steps();
    let (theirs, ours) = (server().await, crate::testing::TestingServer::builder());
    let ours = ours.latency(Duration::ZERO..=Duration::ZERO).container_check_interval(Duration::MAX).start();
    let listening = ours.listen("127.0.0.1:0").expect("a free port");
    let begun = std::time::Instant::now();
    let client = |servers| OtherClient::new(servers, TIMEOUT);
    let outcome =
        run(seed, steps, "/differential", client(listening.connect_string()), client(theirs.connect_string())).await;
    println!("took {:?}", begun.elapsed());
    assert_worthwhile(&outcome, steps);
}
