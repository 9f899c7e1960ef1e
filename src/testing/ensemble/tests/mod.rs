//! What only an ensemble in memory can show: times, lags, faults, and that a seed replays.

mod attempts;
mod faults;
mod freeze;
mod grants;
mod lag;
mod limits;
mod observed;
mod persistent;
mod replay;
mod time;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;

use super::{MemoryEnsemble, Options};
use crate::backend::{Ensemble, Loss, Observer, Opened, Proof, Session, SessionEvent};
use crate::util::clock::Clock;
use crate::znode::{Acl, CreateMode};

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

/// As a client that wants a session timeout of `wanted`.
fn access(ensemble: &MemoryEnsemble, group: u32, wanted: Duration) -> Arc<dyn Ensemble> {
    ensemble.for_group(group, wanted, usize::MAX, Clock::Tokio(Instant::now()))
}

async fn open(ensemble: &MemoryEnsemble, group: u32) -> Opened {
    open_observed(ensemble, group).await.0
}

async fn open_observed(ensemble: &MemoryEnsemble, group: u32) -> (Opened, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let opened = access(ensemble, group, T).open(seen.clone()).await;
    (opened.expect("a session"), seen)
}

/// What an observer was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Connecting,
    Connected(Duration),
    Answered(Proof),
    Disconnected(Loss),
}

/// Notes what it is told, with the instant that came with it.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<(Option<crate::util::clock::Instant>, Told)>>);

impl Seen {
    fn note(&self, at: Option<crate::util::clock::Instant>, told: Told) {
        self.0.lock().unwrap().push((at, told));
    }

    /// What was told since the last look.
    fn take(&self) -> Vec<(Option<crate::util::clock::Instant>, Told)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// As `take`, without the instants.
    fn told(&self) -> Vec<Told> {
        self.take().into_iter().map(|(_, told)| told).collect()
    }
}

impl Observer for Seen {
    fn connecting(&self, at: crate::util::clock::Instant) {
        self.note(Some(at), Told::Connecting);
    }

    fn connected(&self, granted: Duration) {
        self.note(None, Told::Connected(granted));
    }

    fn answered(&self, sent: crate::util::clock::Instant, proof: Proof) {
        self.note(Some(sent), Told::Answered(proof));
    }

    fn disconnected(&self, loss: Loss) {
        self.note(None, Told::Disconnected(loss));
    }
}

async fn session(ensemble: &MemoryEnsemble, group: u32) -> Arc<dyn Session> {
    open(ensemble, group).await.session
}

async fn create(session: &Arc<dyn Session>, path: &str, mode: CreateMode) -> String {
    let created = session.create(path, b"", mode, &[Acl::anyone_all()]).await;
    created.unwrap_or_else(|error| panic!("creating {path}: {error:?}")).0
}

async fn next(opened: &mut Opened) -> SessionEvent {
    tokio::time::timeout(T * 10, opened.events.next()).await.expect("an event").expect("not the end")
}

/// The next event is the loss of the connection.
async fn loses(opened: &mut Opened) -> Loss {
    match next(opened).await {
        SessionEvent::Disconnected(loss) => loss,
        event => panic!("{event:?} instead of a loss"),
    }
}

/// How long it takes until `condition` holds.
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
