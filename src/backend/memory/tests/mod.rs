//! What only an ensemble in memory can show: times, lags, faults, and that a seed replays.

mod faults;
mod freeze;
mod lag;
mod limits;
mod replay;
mod time;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;

use super::{MemoryEnsemble, Options};
use crate::backend::{Opened, Session, SessionEvent};
use crate::types::{Acl, CreateMode};

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

async fn open(ensemble: &MemoryEnsemble, group: u32) -> Opened {
    ensemble.for_group(group, T).open().await.expect("a session")
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
