//! A worker that acquires permits, works, and releases them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::semaphore::{Error, InterProcessSemaphore, SemaphoreGuard};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ErrorKind};

use super::ledger::Ledger;
use super::play::{LEASES, LINE};
use crate::line::is_there;
use crate::trace::Trace;

/// How a worker acquires permits.
#[derive(Debug)]
pub(super) enum Call {
    Acquire,
    /// `acquire`, dropped after this time.
    AcquireHalfWay(Duration),
    AcquireTimeout(Duration),
    TryAcquire,
}

/// How a worker releases permits.
#[derive(Debug)]
pub(super) enum Parting {
    Release,
    Drop,
    /// `release`, dropped after this time.
    ReleaseHalfWay(Duration),
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) number: u64,
    pub(super) permits: u32,
    pub(super) call: Call,
    pub(super) hold: Duration,
    pub(super) runs: bool,
    pub(super) parting: Parting,
}

pub(super) struct Worker {
    pub(super) plan: Plan,
    pub(super) semaphore: InterProcessSemaphore,
    pub(super) client: Client,
    pub(super) server: TestingServer,
    pub(super) trace: Trace,
    pub(super) ledger: Arc<Ledger>,
    pub(super) hurry: watch::Receiver<bool>,
}

impl Worker {
    pub(super) async fn work(self) {
        let begun = self.ledger.now();
        let Some(guard) = self.ask().await else { return };
        let guard = Arc::new(guard);
        if guard.permits() != self.plan.permits {
            self.object(format_args!("it wanted {} permits, but has {}", self.plan.permits, guard.permits()));
        }
        self.ledger.sit(self.plan.number, &self.client, &guard, begun);
        self.hold(&guard).await;
        let guard = Arc::into_inner(guard).expect("the ledger holds none");
        self.part(guard).await;
    }

    async fn ask(&self) -> Option<SemaphoreGuard> {
        let (begun, wanted) = (Instant::now(), self.plan.permits);
        let got = match self.plan.call {
            Call::Acquire => self.semaphore.acquire(wanted).await.map(Some),
            Call::AcquireHalfWay(time) => match timeout(time, self.semaphore.acquire(wanted)).await {
                Ok(got) => got.map(Some),
                Err(_) => return None,
            },
            Call::AcquireTimeout(within) => self.semaphore.acquire_timeout(wanted, within).await,
            Call::TryAcquire => self.semaphore.try_acquire(wanted).await,
        };
        let had = got.as_ref().map(|got| got.as_ref().map(SemaphoreGuard::fencing_token));
        self.note(format_args!("gets {had:?} after {:?}", begun.elapsed()));
        match got {
            Ok(Some(guard)) => Some(guard),
            Ok(None) => {
                self.nothing_is_left();
                None
            }
            Err(error) => {
                let is_timed = matches!(self.plan.call, Call::AcquireTimeout(_) | Call::TryAcquire);
                let may = is_timed && matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::TimedOut);
                if !may {
                    self.object(format_args!("its call failed: {error}"));
                }
                None
            }
        }
    }

    /// Checks that a call that returned `None` has left no node.
    fn nothing_is_left(&self) {
        let ours = self.plan.number.to_string().into_bytes();
        let left = [LINE, LEASES].into_iter().flat_map(|line| line.places(&self.server));
        if let Some(left) = left.into_iter().find(|place| place.data == ours && place.is_connected(&self.server)) {
            self.object(format_args!("it did not get the permits, but left {left:?}"));
        }
    }

    /// Works with the permits for the planned time, or until all workers have to hurry.
    async fn hold(&self, guard: &SemaphoreGuard) {
        let mut hurry = self.hurry.clone();
        let enough = async {
            // This also ends when the sender is dropped, at the end of the seed.
            let hurried = async { drop(hurry.wait_for(|hurry| *hurry).await) };
            let _ = timeout(self.plan.hold, hurried).await;
            sleep(Duration::from_millis(2)).await;
        };
        if !self.plan.runs {
            return enough.await;
        }
        if guard.run(enough).await.is_err() && guard.is_held() {
            self.object("run() reports the permits as lost, but is_held() does not");
        }
    }

    async fn part(&self, guard: SemaphoreGuard) {
        let stat = |path: &str| self.server.stat(path).map(|stat| (path.to_owned(), stat.czxid));
        let leases: Vec<_> = guard.node_paths().filter_map(stat).collect();
        match self.plan.parting {
            Parting::Drop => drop(guard),
            Parting::Release => {
                let held = guard.is_held();
                let released = guard.release().await;
                self.note(format_args!("has released: {released:?}"));
                match released {
                    Ok(()) if !held => self.object("it released lost permits, but release() did not report the loss"),
                    Ok(()) => {
                        let left = leases.iter().find(|(path, czxid)| is_there(&self.server, path, *czxid));
                        if let Some((path, _)) = left {
                            self.object(format_args!("it has released the permits, but left {path}"));
                        }
                    }
                    Err(Error::Lost { .. }) if !held => {}
                    Err(Error::Lost { .. }) => self.object("it had the permits, but release() reports a loss"),
                    Err(error) if error.kind() != ErrorKind::SessionLost => {
                        self.object(format_args!("it could not release the permits: {error}"));
                    }
                    Err(_) => {}
                }
            }
            Parting::ReleaseHalfWay(time) => {
                let _ = timeout(time, guard.release()).await;
            }
        }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.trace.note(format_args!("{} {what}", self.plan.number));
    }

    fn object(&self, what: impl std::fmt::Display) {
        self.ledger.object(format!("{}: {what}", self.plan.number));
    }
}
