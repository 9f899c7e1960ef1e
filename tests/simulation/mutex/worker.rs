//! One that comes for the lock, works under it and lets it go; and what it may expect of each call.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::mutex::{Error, InterProcessMutex, MutexGuard};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ErrorKind};

use crate::line::is_there;
use crate::mutex::play::Workshop;
use crate::stage::Play;
use crate::trace::Trace;
use crate::watcher::{Holder, Watcher};
use crate::world::Thaws;

/// How finely tokio's timers tell the time.
const GRAIN: Duration = Duration::from_millis(2);
/// A holder that wants to be told is told by then: it takes no message.
const TOLD: Duration = Duration::from_millis(25);

/// The plan of one worker.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) number: u64,
    /// No other worker uses the mutex object, so its data identifies the node.
    pub(super) alone: bool,
    pub(super) call: Call,
    pub(super) grip: Grip,
    pub(super) hold: Duration,
    /// The lock is entered again, and let go twice.
    pub(super) again: bool,
    pub(super) parting: Parting,
}

/// How one asks for the lock.
#[derive(Debug)]
pub(super) enum Call {
    Acquire,
    /// `acquire`, dropped after this time.
    AcquireHalfWay(Duration),
    AcquireTimeout(Duration),
    TryAcquire,
}

/// How one holds it.
#[derive(Debug)]
pub(super) enum Grip {
    Bare,
    Run,
    UntilLost,
    UntilRevoked,
}

/// How one lets it go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Parting {
    Release,
    Drop,
    /// `release`, dropped after this time.
    ReleaseHalfWay(Duration),
}

/// How often something happened.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Holder for MutexGuard {
    fn token(&self) -> Option<i64> {
        self.is_held().then(|| self.fencing_token())
    }
}

pub(super) struct Worker {
    pub(super) plan: Plan,
    pub(super) mutex: InterProcessMutex,
    pub(super) client: Client,
    pub(super) client_number: usize,
    /// The session timeout.
    pub(super) timeout: Duration,
    pub(super) server: TestingServer,
    pub(super) trace: Trace,
    pub(super) thaws: Thaws,
    pub(super) watcher: Arc<Watcher>,
    pub(super) hurry: watch::Receiver<bool>,
    pub(super) cancelled: Arc<Count>,
}

impl Worker {
    pub(super) async fn work(self) {
        let Some(guard) = self.come().await else { return };
        let guard = self.sit(guard);
        self.hold(&guard).await;
        let again = if self.plan.again { self.reenter(&guard) } else { None };
        self.part(guard, again.is_none()).await;
        if let Some(again) = again {
            self.hold(&again).await;
            self.part(again, true).await;
        }
    }

    /// Asks for the lock.
    async fn come(&self) -> Option<MutexGuard> {
        let begun = Instant::now();
        let got = match self.plan.call {
            Call::Acquire => self.mutex.acquire().await.map(Some),
            Call::AcquireHalfWay(time) => match timeout(time, self.mutex.acquire()).await {
                Ok(got) => got.map(Some),
                Err(_) => {
                    self.cancelled.add();
                    return None;
                }
            },
            Call::AcquireTimeout(within) => {
                let got = self.mutex.acquire_timeout(within).await;
                self.in_time(begun, within);
                got
            }
            Call::TryAcquire => {
                let got = self.mutex.try_acquire().await;
                self.in_time(begun, self.timeout);
                got
            }
        };
        self.note(format_args!("gets {:?}", got.as_ref().map(|got| got.as_ref().map(MutexGuard::fencing_token))));
        match got {
            Ok(got) => {
                if got.is_none() {
                    self.nothing_is_left();
                }
                got
            }
            Err(error) => {
                self.may_fail(&error);
                None
            }
        }
    }

    /// A call that has a deadline returns by then, unless its process was frozen.
    fn in_time(&self, begun: Instant, within: Duration) {
        let deadline = self.thaws.effective_deadline(self.client_number, begun + within);
        if Instant::now() > deadline + GRAIN {
            let took = begun.elapsed();
            self.object(format_args!("its call was to take {within:?} and took {took:?}"));
        }
    }

    /// After `None` there is no node.
    fn nothing_is_left(&self) {
        let ours = self.plan.number.to_string().into_bytes();
        let left = Workshop::LINE.places(&self.server).into_iter().find(|place| self.plan.alone && place.data == ours);
        if let Some(left) = left {
            self.object(format_args!("it did not get the lock, and left {left:?}"));
        }
    }

    fn may_fail(&self, error: &Error) {
        let may = match self.plan.call {
            Call::Acquire | Call::AcquireHalfWay(_) => false,
            Call::AcquireTimeout(_) | Call::TryAcquire => {
                matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::TimedOut)
            }
        };
        if !may {
            self.object(format_args!("its call failed: {error}"));
        }
    }

    /// Works under the lock, for the planned time, or until all workers are in a hurry.
    async fn hold(&self, guard: &MutexGuard) {
        let until = Instant::now() + self.plan.hold;
        let mut hurry = self.hurry.clone();
        let mut enough = pin!(async move {
            // The end of the world ends this as well.
            let hurried = async { drop(hurry.wait_for(|hurry| *hurry).await) };
            let _ = tokio::time::timeout_at(until, hurried).await;
            sleep(GRAIN).await;
        });
        match self.plan.grip {
            Grip::Bare => enough.await,
            Grip::Run => {
                let work = async {
                    let mut steps = tokio::time::interval(Duration::from_millis(100));
                    loop {
                        // Looked at in each poll, as the work must not be polled after the loss.
                        if !guard.is_held() {
                            self.object("its work continues, and the lock is lost");
                        }
                        tokio::select! {
                            biased;
                            () = &mut enough => break,
                            _ = steps.tick() => {}
                        }
                    }
                };
                if guard.run(work).await.is_err() && guard.is_held() {
                    self.object("run() says that the lock is lost, and is_held() that it is not");
                }
            }
            Grip::UntilLost => {
                tokio::select! {
                    biased;
                    () = guard.lost() => self.lost("lost()", guard),
                    () = self.told(guard) => self.object("lost() does not tell of the loss"),
                    () = enough => {}
                }
            }
            Grip::UntilRevoked => {
                tokio::select! {
                    biased;
                    revoked = guard.on_revoke() => match revoked {
                        Ok(()) => self.revoked(guard),
                        Err(_) => self.lost("on_revoke()", guard),
                    },
                    () = self.told(guard) => self.object("on_revoke() does not tell of the loss"),
                    () = enough => {}
                }
            }
        }
    }

    /// Resolves some time after the loss: by then the holder must have been told.
    async fn told(&self, guard: &MutexGuard) {
        loop {
            sleep(TOLD).await;
            if !guard.is_held() {
                sleep(TOLD).await;
                return;
            }
        }
    }

    fn lost(&self, who: &str, guard: &MutexGuard) {
        if guard.is_held() {
            self.object(format_args!("{who} says that the lock is lost, and is_held() that it is not"));
        }
    }

    fn revoked(&self, guard: &MutexGuard) {
        let data = self.server.get(guard.node_path());
        // A node that is gone by now may have held it.
        if data.is_some_and(|data| data != b"__REVOKE__") {
            self.object("it is told to release, and no participant has asked for that");
        }
    }

    fn reenter(&self, guard: &MutexGuard) -> Option<Arc<MutexGuard>> {
        let held = guard.is_held();
        match guard.reenter() {
            Ok(again) if held && again.fencing_token() == guard.fencing_token() => Some(self.sit(again)),
            Err(Error::Lost { .. }) if !held => None,
            other => {
                self.object(format_args!("its lock is held: {held}, and re-entering it gives {other:?}"));
                None
            }
        }
    }

    /// Releases; the `last` guard deletes the node.
    async fn part(&self, guard: Arc<MutexGuard>, last: bool) {
        let (path, token) = (guard.node_path().to_owned(), guard.fencing_token());
        let guard = Arc::into_inner(guard).expect("the watcher holds none");
        match self.plan.parting {
            Parting::Drop => {
                self.note("drops its guard");
                drop(guard);
            }
            Parting::Release => {
                let held = guard.is_held();
                let released = guard.release().await;
                self.note(format_args!("has released: {released:?}"));
                match released {
                    Ok(()) if !held => self.object("it has released a lock that was lost, and is not told so"),
                    Err(Error::Lost { .. }) if !held => {}
                    Err(Error::Lost { .. }) => self.object("it held the lock, and is told that it was lost"),
                    Ok(()) if last && is_there(&self.server, &path, token) => {
                        self.object(format_args!("it has released the lock, and left {path}"));
                    }
                    Err(error) if error.kind() != ErrorKind::SessionLost || !last => {
                        self.object(format_args!("it could not release the lock: {error}"));
                    }
                    _ => {}
                }
            }
            Parting::ReleaseHalfWay(time) => {
                if timeout(time, guard.release()).await.is_err() {
                    self.cancelled.add();
                    self.note("has dropped its release");
                }
            }
        }
    }

    fn sit(&self, guard: MutexGuard) -> Arc<MutexGuard> {
        let guard = Arc::new(guard);
        self.watcher.sit(self.plan.number, &self.client, &guard);
        guard
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.trace.note(format_args!("{} {what}", self.plan.number));
    }

    fn object(&self, what: impl std::fmt::Display) {
        self.watcher.object(format!("{}: {what}", self.plan.number));
    }
}
