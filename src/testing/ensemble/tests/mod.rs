//! Tests that only an ensemble in memory allows: times, lags, faults, and the replay of a seed.

mod faults;
mod grants;
mod lag;
mod limits;
mod persistent;
mod replay;
mod time;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;

use super::{MemoryEnsemble, Options};
use crate::engine::connect_string::ConnectString;
use crate::engine::{self, Jitter};
use crate::engine::{Ensemble, Loss, Observer, Opened, Proof, Session, SessionEvent};
use crate::util::clock::Clock;
use crate::util::random::Random;
use crate::util::znode::{Acl, CreateMode};

const T: Duration = Duration::from_secs(10);

fn start(options: Options) -> MemoryEnsemble {
    MemoryEnsemble::start_with(options, |driver| {
        tokio::runtime::Handle::current().spawn(driver);
    })
}

/// Three servers that need up to `lag` milliseconds to apply what is committed.
fn three(seed: u64, lag: u64) -> MemoryEnsemble {
    start(Options { seed, servers: 3, lag: 0..=lag, ..Options::default() })
}

impl MemoryEnsemble {
    /// Returns the ensemble as one client reaches it, through the same engine as real servers.
    pub(crate) fn for_group(
        &self,
        group: u32,
        session_timeout: Duration,
        max_request_bytes: usize,
        clock: Clock,
    ) -> Arc<Ensemble> {
        let servers = ConnectString::parse(&self.connect_string()).expect("names of servers");
        let runtime = tokio::runtime::Handle::current();
        let spawn = Arc::new(move |task| drop(runtime.spawn(task)));
        // Each client draws different numbers, but the same ones in each run.
        let random = Random::seeded(self.with(|world| world.next_id()));
        let jitter: Jitter = Arc::new(move || random.unit());
        let options = engine::Options {
            max_request_bytes,
            ..engine::Options::new(servers, session_timeout, clock, spawn, jitter)
        };
        Arc::new(Ensemble::with_connector(options, self.network(group)))
    }
}

/// Returns the ensemble for a client that asks for a session timeout of `wanted`.
fn access(ensemble: &MemoryEnsemble, group: u32, wanted: Duration) -> Arc<Ensemble> {
    ensemble.for_group(group, wanted, usize::MAX, Clock::tokio(Instant::now()))
}

async fn open(ensemble: &MemoryEnsemble, group: u32) -> Opened {
    access(ensemble, group, T).open(Arc::new(Indifferent)).await.expect("a session")
}

/// An observer that ignores everything.
#[derive(Debug)]
struct Indifferent;

impl Observer for Indifferent {
    fn connecting(&self, _at: crate::util::clock::Instant) {}
    fn connected(&self, _granted: Duration) {}
    fn answered(&self, _sent: crate::util::clock::Instant, _proof: Proof) {}
    fn disconnected(&self, _loss: Loss) {}
}

async fn session(ensemble: &MemoryEnsemble, group: u32) -> Arc<Session> {
    open(ensemble, group).await.session
}

async fn create(session: &Arc<Session>, path: &str, mode: CreateMode) -> String {
    let created = session.create(path, b"", mode, &[Acl::anyone_all()]).await;
    created.unwrap_or_else(|error| panic!("creating {path}: {error:?}")).0
}

async fn next(opened: &mut Opened) -> SessionEvent {
    tokio::time::timeout(T * 10, opened.events.next()).await.expect("an event").expect("not the end")
}

/// Waits for the next event, which must be the loss of the connection.
async fn loses(opened: &mut Opened) -> Loss {
    match next(opened).await {
        SessionEvent::Disconnected(loss) => loss,
        event => panic!("{event:?} instead of a loss"),
    }
}

/// Waits until `condition` holds. Returns how long that took.
async fn takes(mut condition: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < T * 10, "it takes too long");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    begun.elapsed()
}

fn within(found: Duration, low: f64, high: f64) {
    let share = found.as_secs_f64() / T.as_secs_f64();
    assert!((low..=high).contains(&share), "{found:?} is {share} T, not {low} to {high} T");
}
